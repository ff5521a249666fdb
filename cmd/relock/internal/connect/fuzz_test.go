package connect

import (
	"strings"
	"testing"
)

// Whatever stands in an address, reading it ends in options or an error, and neither the error nor
// the masked address has the password.
func FuzzAddresses(f *testing.F) {
	for _, rest := range []string{
		"h", "h:1,i:2/5", "[::1]:1,[::2]:2/3", "h?addr=i:2&db=4", "s?master_set=one&dial_timeout=1s", "h/%zz", "h:port",
		"h?max_retries=x", ":1", "h?db=-1", "@h", "h#x",
	} {
		f.Add("redis", rest)
		f.Add("rediss", rest)
		f.Add("unix", "/"+rest)
	}
	f.Fuzz(func(t *testing.T, scheme, rest string) {
		const secret = "s3cr3t-w0rd"
		address := scheme + "://me:" + secret + "@" + rest
		if strings.Contains(scheme+rest, secret) || strings.Contains(rest, "file") {
			return // it is elsewhere too, or in a file
		}
		if masked, _ := Mask(address); strings.Contains(masked, secret) {
			t.Errorf("Mask(%q) has the password: %s", address, masked)
		}
		if _, err := Options(address); err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("Options(%q) has the password: %v", address, err)
		}
	})
}
