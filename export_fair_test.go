package relock

// The scripts of a FairMutex, for benchmarks and to know them on the wire.
var (
	EnterSHA            = enterScript.sha
	LookSHA             = lookScript.sha
	LeaveText, LeaveSHA = leaveScript.text, leaveScript.sha
)
