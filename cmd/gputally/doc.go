// Command gputally is every service and every question in one binary: thin
// subcommands over the rooms, which wiring.go alone knows and puts together.
package main
