// Package steps runs a program's steps, a line for each; the first that fails is named and ends the program with exit code 1.
package steps

import (
	"errors"
	"fmt"
	"os"
	"time"
)

// Patience is how long `Eventually` asks.
const Patience = 40 * time.Second

// Step is a part of the program; what is wrong in it ends the program.
type Step struct {
	What string
	Do   func()
}

var doing = "0 connect"

// Run does all steps, numbered from 1, and says so.
func Run(all []Step) {
	for number, step := range all {
		doing = fmt.Sprintf("%d %s", number+1, step.What)
		step.Do()
		fmt.Printf("ok %s\n", doing)
	}
	fmt.Println("all is well")
}

// Fail ends the program.
func Fail(why string) {
	fmt.Printf("FAILED %s: %s\n", doing, why)
	os.Exit(1)
}

// Must fails if there is any error.
func Must(errs ...error) {
	if err := errors.Join(errs...); err != nil {
		Fail(err.Error())
	}
}

// Get returns a value that came without error.
func Get[T any](value T, err error) T {
	Must(err)
	return value
}

// Expect fails when something is not as it must be.
func Expect[T comparable](what string, got, want T) {
	if got != want {
		Fail(fmt.Sprintf("%s: %v, not %v", what, got, want))
	}
}

// Refused fails unless the answer is this error.
func Refused(err, want error) {
	if !errors.Is(err, want) {
		Fail(fmt.Sprintf("answered %v, not %v", err, want))
	}
}

// Eventually asks again while an answer is no: each broker hears of a change in its own time.
func Eventually(what string, is func() bool) {
	for deadline := time.Now().Add(Patience); !is(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			Fail("never: " + what)
		}
	}
}
