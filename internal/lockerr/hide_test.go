package lockerr

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

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
