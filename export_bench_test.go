package relock

// The scripts of a Mutex, which the benchmarks send without relock.
var (
	AcquireText, AcquireSHA = acquireScript.text, acquireScript.sha
	ReleaseText, ReleaseSHA = releaseScript.text, releaseScript.sha
)
