// Package top is a live table of locks in a terminal.
//
// What it asks of Redis is bounded: so many steps of a scan a second, each of locks.Step keys,
// and so many locks read a second. The rest of the table is as old as its turn takes.
package top
