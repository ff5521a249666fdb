package relockotel

import "runtime/debug"

// version returns the version of this module in the program, for the scope of metrics and spans. It is
// "(devel)" in a program that is built from a checkout.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return devel
	}
	return versionIn(info)
}

const devel = "(devel)"

func versionIn(info *debug.BuildInfo) string {
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path != scope {
			continue
		}
		if m.Replace != nil {
			m = m.Replace
		}
		if m.Version != "" {
			return m.Version
		}
	}
	return devel
}
