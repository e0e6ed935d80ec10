// Package embed shows how a Go program uses Godwit; see its Example.
package embed
