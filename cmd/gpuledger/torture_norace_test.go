//go:build !race

package main

const tortureRows = 2_000_000
