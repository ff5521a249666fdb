// Package locks finds the locks in Redis and reads what is known of them. It changes nothing.
package locks
