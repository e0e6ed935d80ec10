//go:build cgo

// Command libgodwit is the shared library of package icd:
//
//	go build -buildmode=c-shared -o bin/libgodwit.so ./cmd/libgodwit
package main

import _ "godwit/internal/icd"

func main() {}
