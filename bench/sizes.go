package main

import "time"

// sizes are how much of everything is done.
type sizes struct {
	rounds     int
	pairs      int           // of uncontended, in a round
	slice      time.Duration // of one library in a round
	goroutines []int
	processes  []int
	perProcess int // goroutines
	readers    int
	wakeUps    int // in a round
	stuck      time.Duration
	herd       herd
	locality   locality
	held       []held
	churn      int // names
	churnParts int
}

// held is how many locks are held, with what lease.
type held struct {
	locks   int
	lease   time.Duration
	periods int // measured
	rounds  int
}

// locality is which shares of the calls are for one's own names, of so many.
type locality struct {
	own    []int // per cent
	names  int
	rounds int
	span   time.Duration
}

// herd is how many processes hammer one name, and for how long. The smallest and the largest
// number have every round, the others one.
type herd struct {
	processes    []int
	rounds       int
	warmUp, span time.Duration
}

var (
	fullSizes = sizes{
		rounds: 9, pairs: 300, slice: 250 * time.Millisecond,
		goroutines: []int{1, 4, 16, 64, 256},
		processes:  []int{1, 2, 4, 8}, perProcess: 8,
		readers: 64, wakeUps: 36, stuck: 2 * time.Second,
		herd:     herd{[]int{2, 8, 32, 128}, 3, 700 * time.Millisecond, 3 * time.Second},
		locality: locality{[]int{100, 95, 50, 0}, 1000, 1, 2 * time.Second},
		held: []held{
			{100, 6 * time.Second, 2, 1}, {1000, 6 * time.Second, 2, 1}, {10_000, 6 * time.Second, 2, 3},
			{100_000, 30 * time.Second, 2, 1},
		},
		churn: 1_000_000, churnParts: 10,
	}
	farSizes = sizes{
		rounds: 5, pairs: 100, slice: 250 * time.Millisecond,
		goroutines: []int{1, 16, 256},
		processes:  []int{1, 4, 8}, perProcess: 8,
		readers: 64, wakeUps: 10, stuck: 2 * time.Second,
		herd:     herd{[]int{2, 32}, 1, 700 * time.Millisecond, 3 * time.Second},
		locality: locality{[]int{100, 95, 50, 0}, 200, 1, 2 * time.Second},
		held:     []held{{10_000, 6 * time.Second, 3, 1}},
		churn:    100_000, churnParts: 5,
	}
	// quickSizes show that everything works, and nothing else.
	quickSizes = sizes{
		rounds: 1, pairs: 20, slice: 30 * time.Millisecond,
		goroutines: []int{1, 8},
		processes:  []int{2}, perProcess: 2,
		readers: 4, wakeUps: 3, stuck: time.Second,
		herd:     herd{[]int{2, 4}, 1, 50 * time.Millisecond, 100 * time.Millisecond},
		locality: locality{[]int{100, 50}, 5, 1, 30 * time.Millisecond},
		held:     []held{{50, 900 * time.Millisecond, 1, 1}},
		churn:    400, churnParts: 2,
	}
)

// pick returns the sizes of a part of the run.
func (s *settings) pick(far bool) sizes {
	z := fullSizes
	switch {
	case s.quick:
		z = quickSizes
		if far {
			z.slice, z.pairs, z.goroutines = 3*z.slice, z.pairs/2, z.goroutines[1:]
		}
	case far:
		z = farSizes
	}
	if s.rounds > 0 {
		z.rounds, z.herd.rounds, z.locality.rounds = s.rounds, s.rounds, s.rounds
	}
	return z
}
