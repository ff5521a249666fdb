// Command bench runs relock and its Go peers through the same scenarios, in turns,
// against one Redis server, and prints one table. README.md says what is measured.
//
// Every library runs in processes of its own, workers, which are this program again:
// so processor time, memory and goroutines are its own. The main process tells the
// workers what to do by lines of JSON, one library at a time, and asks the server what
// it cost. What a library does in a scenario is repeated in rounds, each in another
// order of libraries: a machine that is busy with something else disturbs all alike.
package main
