module github.com/pawl-go/pawl/driver/drivertest/linear

go 1.26.0

require (
	github.com/anishathalye/porcupine v1.3.1
	github.com/pawl-go/pawl v0.1.0
)

require golang.org/x/sys v0.49.0 // indirect
