package spec

import (
	"fmt"
	"strconv"
	"strings"
)

// Traced returns the text of a script that also says what it has done, in the same atomic step: it
// pushes one text to the list at TraceKey. Only tests send such scripts.
func Traced(name, text string) string {
	first := ""
	if rest, flagged := strings.CutPrefix(text, "--!df"); flagged {
		line, more, _ := strings.Cut(rest, "\n")
		first, text = "--!df"+line+"\n", more
	}
	return first + fmt.Sprintf(tracer, name, text, TraceKey)
}

// TraceKey is where traced scripts push what they have done.
const TraceKey = "relock_trace"

// tracer is Lua around a script. A line of what it says begins with a letter: K and A for keys and
// arguments, R for numbers of the reply, E for an error, N for a channel and how many listen there,
// P for a channel, how many have heard a message, and the message.
const tracer = `local real, said, time = redis, {'%s'}, nil
local function line(letter, ...) said[#said + 1] = letter .. table.concat({...}, ' ') end
local function watched(how)
  return function(command, ...)
    local reply, args, verb = real[how](command, ...), {...}, string.lower(command)
    if verb == 'time' then
      time = reply
    elseif verb == 'pubsub' and type(reply) == 'table' then
      for i = 1, #reply, 2 do line('N', reply[i], reply[i + 1]) end
    elseif verb == 'publish' or verb == 'spublish' then
      line('P', args[1], type(reply) == 'number' and reply or -1, args[2])
    end
    return reply
  end
end
local redis = setmetatable({call = watched('call'), pcall = watched('pcall')}, {__index = real})
local function script()
%s
end
local reply = script()
time = time or real.call('time')
for _, key in ipairs(KEYS) do line('K', key) end
for _, arg in ipairs(ARGV) do line('A', arg) end
if type(reply) == 'table' and reply.err then
  line('E', reply.err)
else
  for _, x in ipairs(type(reply) == 'table' and reply or {reply}) do
    line('R', type(x) == 'number' and string.format('%%.0f', x) or x)
  end
end
local over = real.call('time') -- servers before 7.2 count leases by the time of the command
line('T', time[1], time[2], over[1], over[2])
real.pcall('rpush', '%s', table.concat(said, '\n'))
return reply
`

// An Event is one entry of a trace: a script, by its name, or what a client says, begins or ends,
// when a hold of it becomes valid and ceases to be.
type Event struct {
	Name      string
	At        Time // on the server's clock
	Took      Time
	Keys      []string
	Args      []string
	Reply     []string
	Err       string
	Listeners map[string]int // by channel
	Published []Published

	slop Time // by how much more than usual the end of a key may differ
}

// Published is a message, and how many have heard it.
type Published struct {
	Channel, Text string
	Heard         int
}

// What a client says of a hold: the first key is the lock's, the first argument the hold id.
const (
	Begins = "begins"
	Ends   = "ends"
)

// Parse reads what a traced script has pushed.
func Parse(text string) (e Event) {
	name, rest, _ := strings.Cut(text, "\n")
	e = Event{Name: name, Listeners: map[string]int{}}
	for line := range strings.SplitSeq(rest, "\n") {
		if line == "" {
			continue
		}
		body := line[1:]
		switch line[0] {
		case 'K':
			e.Keys = append(e.Keys, body)
		case 'A':
			e.Args = append(e.Args, body)
		case 'R':
			e.Reply = append(e.Reply, body)
		case 'E':
			e.Err = body
		case 'N':
			at := strings.LastIndexByte(body, ' ')
			e.Listeners[body[:at]], _ = strconv.Atoi(body[at+1:])
		case 'P':
			channel, more, _ := strings.Cut(body, " ")
			count, message, _ := strings.Cut(more, " ")
			heard, _ := strconv.Atoi(count)
			e.Published = append(e.Published, Published{channel, message, heard})
		case 'T':
			var at [4]int64
			for i, word := range strings.Fields(body) {
				at[i] = number(word)
			}
			e.At = Time(at[0])*Second + Time(at[1])
			e.Took = max(Time(at[2])*Second+Time(at[3])-e.At, 0)
		}
	}
	return e
}

func number(text string) int64 {
	n, _ := strconv.ParseFloat(text, 64) // Redis says 1.78e+15 of a score
	return int64(n)
}

func (e *Event) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d.%06d %s %s", e.At/Second, e.At%Second, e.Name, strings.Join(e.Keys, " "))
	if len(e.Args) > 0 {
		fmt.Fprintf(&b, " (%s)", strings.Join(e.Args, ", "))
	}
	if e.Err != "" {
		fmt.Fprintf(&b, " -> %s", e.Err)
	} else if len(e.Reply) > 0 {
		fmt.Fprintf(&b, " -> %s", strings.Join(e.Reply, ", "))
	}
	for _, p := range e.Published {
		fmt.Fprintf(&b, "\n        says %q on %s to %d", p.Text, p.Channel, p.Heard)
	}
	return b.String()
}
