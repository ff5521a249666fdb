// Package kit is what the test packages of this module share: sessions on servers of their
// own, waits for states, helper processes, outages, and the table of lock types.
package kit
