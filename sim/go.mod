module github.com/pawl-go/pawl/sim

go 1.26.0
