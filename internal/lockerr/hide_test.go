package lockerr

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestJoinedErrorsAreOneLine(t *testing.T) {
	require.NoError(t, Join(nil, nil))
	require.Equal(t, io.EOF, Join(nil, io.EOF), "a single error is returned as it is")
	err := Join(New("unlock", "a", ErrLost), nil, errors.Join(io.EOF, &late{"a second"}))
	require.EqualError(t, err, `relock: unlock "a": lock lost; EOF; late by a second`)
	for _, want := range []error{ErrLost, io.EOF} {
		require.ErrorIs(t, err, want)
	}
	var as *late
	require.ErrorAs(t, err, &as)
}

func TestHideHidesOneErrorAndNoOther(t *testing.T) {
	require.NoError(t, Hide(context.Canceled, context.Canceled))
	require.NoError(t, Hide(nil, context.Canceled))
	require.Equal(t, io.EOF, Hide(io.EOF, context.Canceled))
	all := fmt.Errorf("query: %w", errors.Join(context.Canceled, io.EOF, &late{"a second"}))
	err := Join(ErrLost, Hide(all, context.Canceled))
	require.NotErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, io.EOF)
	require.ErrorIs(t, err, ErrLost)
	var as *late
	require.ErrorAs(t, err, &as)
	require.Contains(t, err.Error(), "query: ")
}
