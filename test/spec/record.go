package spec

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Traced returns the text of a script that also says what it has done, in the same atomic step: it
// pushes one text to a list in the slot of its lock, whose name begins with TraceKey. So what a
// server forgets, or a replica has not heard of, is missing in both. Only tests send such scripts.
func Traced(name, text string) string {
	first := ""
	if rest, flagged := strings.CutPrefix(text, "--!df"); flagged {
		line, more, _ := strings.Cut(rest, "\n")
		first, text = "--!df"+line+"\n", more
	}
	return first + fmt.Sprintf(tracer, name, text, TraceKey)
}

// TraceKey begins the names of the lists to which traced scripts push what they have done.
const TraceKey = "relock_trace:"

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
local tag = string.match(KEYS[1] or '', '{(.-)}')
if not tag or tag == '' then tag = KEYS[1] or '' end
real.pcall('rpush', '%s{' .. tag .. '}', table.concat(said, '\n'))
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

// Foreign is a command in a script of Redisson for a lock, which is the first key. The arguments
// are the verb, and what stands behind the key.
const Foreign = "redisson"

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

// Collect returns what traced scripts have said on a server, which do sends commands to.
func Collect(do func(args ...string) (any, error)) (all []Event, err error) {
	keys, err := do("KEYS", TraceKey+"*")
	if err != nil {
		return nil, err
	}
	for _, key := range keys.([]any) {
		list, err := do("LRANGE", key.(string), "0", "-1")
		if err != nil {
			return nil, err
		}
		for _, text := range list.([]any) {
			all = append(all, Parse(text.(string)))
		}
	}
	slices.SortStableFunc(all, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	return all, nil
}

// foreign are the commands by which Redisson changes a Mutex.
var foreign = []string{"hincrby", "pexpire", "del"}

// Monitored returns what MONITOR has shown of a Mutex, from its lines: traced scripts, and the
// steps of Redisson's scripts that change the lock.
func Monitored(lines []string, lock string) (all []Event) {
	var steps []Event // of the script that runs, if it is not traced
	for _, line := range lines {
		stamp, rest, _ := strings.Cut(strings.TrimPrefix(line, "+"), " [")
		from, rest, _ := strings.Cut(rest, "] ")
		var words []string
		for rest = strings.TrimSpace(rest); rest != ""; rest = strings.TrimSpace(rest) {
			quoted, err := strconv.QuotedPrefix(rest)
			if err != nil {
				panic(err)
			}
			word, _ := strconv.Unquote(quoted)
			words, rest = append(words, word), rest[len(quoted):]
		}
		if !strings.HasSuffix(from, " lua") { // the next command of a client
			all, steps = append(all, steps...), nil
			continue
		}
		switch verb := strings.ToLower(words[0]); {
		case verb == "rpush" && strings.HasPrefix(words[1], TraceKey):
			all, steps = append(all, Parse(words[2])), nil
		case len(words) > 1 && words[1] == lock && slices.Contains(foreign, verb):
			seconds, micros, _ := strings.Cut(stamp, ".")
			at := Time(number(seconds))*Second + Time(number(micros))
			args := append([]string{verb}, words[2:]...)
			steps = append(steps, Event{Name: Foreign, At: at, Keys: []string{lock}, Args: args})
		}
	}
	return append(all, steps...)
}

// Merge puts what clients say between the scripts, which are in order.
func Merge(scripts, said []Event) (all []Event) {
	order := func(e Event) Time { // at the same time, a hold ends before a script, and begins after it
		if e.Name == Begins {
			return 2*e.At + 1
		}
		return 2 * e.At
	}
	said = slices.Clone(said)
	slices.SortStableFunc(said, func(a, b Event) int { return cmp.Compare(order(a), order(b)) })
	for _, e := range scripts {
		for len(said) > 0 && (said[0].At < e.At || said[0].At == e.At && said[0].Name == Ends) {
			all = append(all, said[0])
			said = said[1:]
		}
		all = append(all, e)
	}
	return append(all, said...)
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
