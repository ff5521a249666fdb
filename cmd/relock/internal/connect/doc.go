// Package connect turns the address that a user gives into a client of Redis, set up as
// relock needs it. Errors never repeat a password.
package connect
