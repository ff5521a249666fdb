package wire

// Tokens returns how many fencing tokens an acquisition got, of which token is the first;
// lua/token.lua issues them.
func Tokens(token int64) int64 {
	if token%1024 == 0 {
		return 1024
	}
	return 1
}

// issued returns when a token was issued, on the server's clock (ms).
func issued(token int64) int64 { return token / 1024 }
