module github.com/relock-go/relock/adapters/tusd

go 1.25.0

require (
	github.com/relock-go/relock v0.1.0
	github.com/tus/tusd/v2 v2.9.1
)

require (
	github.com/redis/rueidis v1.0.79 // indirect
	golang.org/x/exp v0.0.0-20250106191152-7588d65b2ba8 // indirect
	golang.org/x/sys v0.47.0 // indirect
)

replace github.com/relock-go/relock => ../../
