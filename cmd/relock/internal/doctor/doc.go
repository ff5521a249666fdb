// Package doctor finds out whether a deployment of Redis has what relock needs, and says in plain
// words what it lacks. It leaves nothing behind but a fencing token, for a minute.
package doctor
