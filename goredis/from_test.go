package goredis

import (
	"go/ast"
	"go/parser"
	"go/token"
	"net"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What becomes of the fields of redis.Options that redis.UniversalOptions does not have. The others have the fate of
// those there: see carried, refusedWith and ignored. TestEveryFieldOfOptionsHasItsFate fails when go-redis adds one.
var (
	carriedOfOptions = []string{"Network", "Addr"}
	ignoredOfOptions = map[string][]string{
		"relock repeats what may be repeated, until the caller's context ends": {"DialerRetryBackoff"},
		"it guards the commands of go-redis":                                   {"Limiter"},
		"after maintenance the client connects again, and holds outlive that":  {"NodeAddress"},
	}
)

// isIgnored reports whether a field of either is ignored.
func isIgnored(name string) bool {
	for _, all := range []map[string][]string{ignored, ignoredOfOptions} {
		for _, names := range all {
			if slices.Contains(names, name) {
				return true
			}
		}
	}
	return false
}

func exportedFields[T any]() (names []string) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		if f.IsExported() {
			names = append(names, f.Name)
		}
	}
	return names
}

func TestEveryFieldOfOptionsHasItsFate(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	fields := exportedFields[redis.Options]()
	for _, name := range fields {
		assert.Contains(t, string(readme), "`"+name+"`", "README.md does not say what becomes of it")
		_, isCarried := carried[name]
		_, isRefused := refusedWith[name]
		if isIgnored(name) || slices.Contains(carriedOfOptions, name) {
			assert.False(t, isCarried || isRefused, name)
			continue
		}
		if !assert.True(t, isCarried || isRefused, "%s is neither carried over, nor refused, nor ignored", name) {
			continue
		}
		o := new(redis.Options)
		value := reflect.ValueOf(o).Elem().FieldByName(name)
		value.Set(something(t, name, value.Type()))
		arrived := reflect.ValueOf(universal(o)).Elem().FieldByName(name)
		assert.False(t, arrived.IsZero(), "%s is lost", name)
	}
	for _, names := range ignoredOfOptions {
		assert.Subset(t, fields, names, "go-redis has no such fields")
	}
}

// something returns a value that is not the zero value.
func something(t *testing.T, name string, of reflect.Type) reflect.Value {
	t.Helper()
	switch of.Kind() {
	case reflect.Bool:
		return reflect.ValueOf(true)
	case reflect.Int, reflect.Int64:
		return reflect.ValueOf(2).Convert(of)
	case reflect.String:
		return reflect.ValueOf("x")
	case reflect.Pointer:
		return reflect.New(of.Elem())
	case reflect.Func:
		return reflect.MakeFunc(of, func([]reflect.Value) []reflect.Value { return nil })
	}
	require.Equal(t, "StreamingCredentialsProvider", name, "a new kind of field")
	return reflect.ValueOf(&provider{latest: auth.NewBasicCredentials("u", "p")})
}

// The doc comments name every field that does nothing, and none that does.
func TestDocsNameEveryFieldThatDoesNothing(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "client.go", nil, parser.ParseComments)
	require.NoError(t, err)
	fields := map[string][]string{
		"NewClient": exportedFields[options](), "FromOptions": exportedFields[redis.Options](),
	}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || fields[f.Name.Name] == nil {
			continue
		}
		_, list, _ := strings.Cut(f.Doc.Text(), "These do nothing here")
		list, _, found := strings.Cut(list, "Nor do hooks")
		require.True(t, found, f.Name.Name)
		words := strings.FieldsFunc(list, func(r rune) bool { return strings.ContainsRune(" \n,.():", r) })
		for _, name := range fields[f.Name.Name] {
			named := slices.Contains(words, name)
			onlyWithoutMaster := name == "ReadOnly" || name == "MasterName"
			assert.Equal(t, isIgnored(name) || onlyWithoutMaster, named, "%s: %s", f.Name.Name, name)
		}
		delete(fields, f.Name.Name)
	}
	assert.Empty(t, fields)
}

func TestFromOptionsNamesWhatItRefuses(t *testing.T) {
	_, err := FromOptions(nil)
	assert.ErrorContains(t, err, "goredis: FromOptions: the options are nil")
	client, err := FromOptions(&redis.Options{OnConnect: refusedWith["OnConnect"].OnConnect, Protocol: 4})
	assert.Nil(t, client)
	assert.Regexp(t, "^goredis: FromOptions: OnConnect.*Protocol 4.*$", err.Error())
}

func TestOptionsDialTheirNetwork(t *testing.T) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	addr := listener.Addr().String()
	for network, works := range map[string]bool{"tcp": true, "tcp4": true, "tcp6": false, "unix": false} {
		o := &redis.Options{Network: network, Addr: addr, DialTimeout: time.Minute}
		r := rueidis.ClientOption{}
		overNetwork(&r, universal(o), o.Network)
		conn, err := r.DialCtxFn(t.Context(), addr, &net.Dialer{}, nil)
		assert.Equal(t, works, err == nil, "%s: %v", network, err)
		if err == nil {
			conn.Close()
		}
	}
	assert.Equal(t, []string{"localhost:6379"}, translate(t, *universal(new(redis.Options))).InitAddress)
}
