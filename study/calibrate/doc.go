// Package calibrate measures devices, and writes a machine file (package study/machine)
// on which the same work takes as long. It is the logic of "godwit calibrate".
//
// What is measured are shapes (shapes.go): Go functions over a runtime.Context, which do
// a unit of something so many times. Two runs of different length give the time of a
// unit, as the slope between them, so that what happens once does not count; a shape's
// figure is the median of several slopes. The clock is the context's: on real devices
// this computer's, on a machine virtual time. So each shape runs unchanged on the devices and on
// the machine that is to be like them.
//
// A figure of the file (figures.go) that one shape reads off is taken from there. All
// others come from one fit (fit.go) over all shapes together, of logarithms. Its columns are
// differences of modelled runs. Some kinds of shapes are held out of it, so that their
// residuals say what the file is worth elsewhere.
package calibrate
