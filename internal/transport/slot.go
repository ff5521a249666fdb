package transport

import "strings"

const slots = 1 << 14 // of a cluster

// Slot returns the slot of a key or channel in a cluster: CRC-16/XMODEM of its hash tag, or
// of the whole key if it has none, modulo 16384.
func Slot(key string) uint16 {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			key = tag
		}
	}
	var crc uint16
	for i := range len(key) {
		crc ^= uint16(key[i]) << 8
		for range 8 {
			carry := crc&0x8000 != 0
			if crc <<= 1; carry {
				crc ^= 0x1021
			}
		}
	}
	return crc & (slots - 1)
}

// Slot returns the slot of a key in a cluster, and 0 outside one.
func (c *Conn) Slot(key string) uint16 {
	if c.Slots == nil {
		return 0
	}
	return Slot(key)
}
