package redistest

import "strings"

// slots is the number of hash slots of a cluster.
const slots = 16384

// Slot returns the hash slot of a key in a cluster: the CRC16 of its hash tag, or
// of the whole key when it has none, modulo 16384.
func Slot(key string) uint16 {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			key = tag
		}
	}
	return crc16(key) % slots
}

// crc16 is CRC-16/XMODEM: polynomial 0x1021, initial value 0, nothing reflected.
func crc16(s string) uint16 {
	var crc uint16
	for i := range len(s) {
		crc ^= uint16(s[i]) << 8
		for range 8 {
			if carry := crc&0x8000 != 0; carry {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return crc
}
