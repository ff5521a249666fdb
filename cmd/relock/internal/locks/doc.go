// Package locks finds the locks in Redis, reads what is known of them, and opens one that was read.
// What it returns as text for people has nothing in it that a terminal would act on.
package locks
