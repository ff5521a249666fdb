package locks

import "testing"

func TestPrintableTextsStayAsTheyAre(t *testing.T) {
	for text, want := range map[string][2]string{
		"":                  {"", ""},
		"goods: 1 \"a\" \\": {"goods: 1 \"a\" \\", "goods: 1 \"a\" \\"},
		"Größe 寸法 🔒":        {"Größe 寸法 🔒", "Größe 寸法 🔒"},
		"a\x1b[1m\"":        {`"a\x1b[1m\""`, `a\x1b[1m"`},
		"a\nb\tc":           {`"a\nb\tc"`, `a\nb\tc`},
		"\u009b\u202e\x9b":  {`"\u009b\u202e\x9b"`, `\u009b\u202e\x9b`},
		"a\x00\xff\uFFFD":   {`"a\x00\xff�"`, `a\x00\xff�`},
	} {
		if got := [2]string{Printable(text), Escaped(text)}; got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
