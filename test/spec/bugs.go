package spec

// A Bug is a deliberate one: the specification without one of its rules. It shows that a property
// would be found broken.
type Bug string

// Of the scripts.
const (
	AbsentAreGranted     Bug = "a lock goes to a session that is not there"
	LapsedCostEachEntry  Bug = "each entry of a frozen session costs a grant timeout"
	PollGrantsTheLease   Bug = "a poll grants a whole lease, which may come to nobody"
	SlotsShared          Bug = "two holders of a semaphore have the same slot"
	RecallUnsaid         Bug = "a holder is not told that others wait"
	ReleaseOfAnybodys    Bug = "a release ends a hold whoever it is of"
	TokenOfTheClock      Bug = "a token is that of the clock, whatever the last one was"
	TokenWithoutMemory   Bug = "the first token after a loss of data is that of the clock"
	TurnWithoutEnd       Bug = "Redisson's turn has no end"
	CancelledStaysQueued Bug = "a call that gives up leaves its entry"
)

// Of the client.
const (
	CancelledKeepsGrant Bug = "a call that gives up keeps what it is granted"
	GrantFromMessage    Bug = "a grant is valid from the arrival of its message"
	GrantTakenTwice     Bug = "each message that grants a hold begins it"
	LateGrantAccepted   Bug = "a grant is not confirmed, however late it comes"
	QueuesTwice         Bug = "a request that queues is sent again under the same hold id"
	RecallIgnored       Bug = "a kept lock is not given up when it is wanted"
	RenewalFromReply    Bug = "a renewal counts from its reply"
)

// Of a Redlock.
const (
	RedlockTokenNotWritten Bug = "the token of a Redlock is not written"
	RedlockTokenOnOne      Bug = "the token of a Redlock is written to one server"
	RedlockTokenLate       Bug = "a Redlock is held also if its validity is over when its token is written"
)
