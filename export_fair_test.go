package relock

// The scripts of a FairMutex, to know them on the wire and for benchmarks.
var (
	EnterSHA            = enterScript.sha
	LookSHA             = lookScript.sha
	LeaveText, LeaveSHA = leaveScript.text, leaveScript.sha
	RenewSHA            = renewScript.sha
)
