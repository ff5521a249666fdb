// Package command is the command line of relock: one file for each subcommand.
package command
