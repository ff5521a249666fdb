package test

import (
	"testing"

	"github.com/relock-go/relock/internal/redistest"
)

func TestTLSWithClientCertificates(t *testing.T) {
	t.Parallel()
	redistest.Needs(t, redistest.TLS)
	ca := redistest.NewAuthority(t)
	_, address := redistest.StartTLS(t, ca)
	cert, key := ca.Issue()
	own := "cert=" + cert + "&key=" + key
	for parameters, status := range map[string]int{
		"?ca=" + ca.File + "&" + own: 0,
		"?skip_verify&" + own:        0,
		"?" + own:                    69, // nobody vouches for the server
		"?ca=" + ca.File + "&" + own + "&server_name=elsewhere": 69,
		"?ca=" + ca.File: 69,
	} {
		start(t, command("rediss://"+address+parameters, "run", "job", "--", "true")).ends(status)
	}
	start(t, command("redis://"+address, "run", "job", "--", "true")).ends(69)
}
