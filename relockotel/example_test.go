package relockotel_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/relockotel"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

func Example() {
	ctx := context.Background()
	reader := metric.NewManualReader() // in the place of an exporter
	otel.SetMeterProvider(metric.NewMeterProvider(metric.WithReader(reader)))

	check := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	server, err := miniredis.Run() // in the place of yours
	check(err)
	defer server.Close()
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{server.Addr()}, ForceSingleClient: true, DisableCache: true,
	})
	check(err)
	defer client.Close()
	check(observed(ctx, client))

	var all metricdata.ResourceMetrics
	check(reader.Collect(ctx, &all))
	for _, m := range all.ScopeMetrics[0].Metrics {
		if sum, ok := m.Data.(metricdata.Sum[int64]); ok && m.Name == "relock.acquisitions" {
			for _, p := range sum.DataPoints {
				if outcome, _ := p.Attributes.Value("outcome"); p.Value > 0 {
					fmt.Println(m.Name, outcome.AsString(), p.Value)
				}
			}
		}
	}
	// Output:
	// relock.acquisitions held 1
}

// observed has the lines of README.md.
func observed(ctx context.Context, client rueidis.Client) error {
	observer, err := relockotel.NewObserver() // of the global providers
	if err != nil {
		return err
	}
	session, err := relock.NewSession(ctx, client, relock.WithObserver(observer))
	if err != nil {
		return err
	}
	defer session.Close(ctx)
	return relock.Do(ctx, session.Mutex("order:4711"), func(context.Context) error { return nil })
}

func TestREADMEIsTheExample(t *testing.T) {
	source, err := os.ReadFile("example_test.go")
	require.NoError(t, err)
	_, snippet, _ := strings.Cut(readme(t), "```go\n")
	snippet, _, _ = strings.Cut(snippet, "\n```")
	require.Contains(t, string(source), "\t"+strings.ReplaceAll(snippet, "\n", "\n\t")+"\n")
}

func readme(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	return string(text)
}

// The tables of README.md have each metric with its type, unit and attributes, and each value
// of those attributes.
func TestREADMEHasTheMetrics(t *testing.T) {
	x, text := newTelemetry(t), readme(t)
	for k := relock.KindMutex; k <= relock.KindSemaphore; k++ {
		report(x.observer, "a", k)
	}
	for _, m := range x.collect() {
		row, keys := "| `"+m.Name+"` | histogram, ", map[string]bool{}
		if d, ok := m.Data.(metricdata.Sum[int64]); ok {
			row = "| `" + m.Name + "` | " + map[bool]string{true: "counter, ", false: "up-down counter, "}[d.IsMonotonic]
		}
		for attributes := range x.points(m.Name) {
			for word := range strings.FieldsSeq(attributes) {
				key, value, _ := strings.Cut(word, "=")
				keys[key] = true
				require.Contains(t, text, "`"+value+"`")
			}
		}
		row += "`" + m.Unit + "` | "
		for _, key := range []string{"kind", "outcome", "cause"} {
			if keys[key] {
				row += "`" + key + "`, "
			}
		}
		require.Contains(t, text, strings.TrimSuffix(row, ", "))
	}
	require.Len(t, x.collect(), strings.Count(text, "| `relock."))
}
