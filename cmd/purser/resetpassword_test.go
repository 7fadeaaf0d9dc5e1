package main

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/cmd/purser/settings"
)

func TestAnOperatorMakesALinkThatResetsAPassword(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	m := startWithSettings(t, data, func(s *settings.Settings) { s.BaseURL = "https://pay.example.com" })
	defer func() { require.NoError(t, m.Close()) }()
	post := func(path, body string, status int) {
		t.Helper()
		resp, err := http.Post("http://"+m.listeners.http.Addr().String()+path, "application/json", strings.NewReader(body))
		require.NoError(t, err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, status, resp.StatusCode, "%s", text)
	}
	post("/api/dashboard/signup", `{"email":"ada@example.com","password":"a long password"}`, 200)
	var out bytes.Buffer
	require.NoError(t, run([]string{"reset-password", "Ada@example.com", "--data-dir", data}, &out))
	link, _, _ := strings.Cut(out.String(), "\n")
	token, found := strings.CutPrefix(link, "https://pay.example.com/dashboard/reset?token=")
	require.True(t, found, out.String())
	post("/api/dashboard/password/reset", `{"token":"`+token+`","newPassword":"another password"}`, 200)
	post("/api/dashboard/login", `{"email":"ada@example.com","password":"another password"}`, 200)
	post("/api/dashboard/login", `{"email":"ada@example.com","password":"a long password"}`, 401)
	post("/api/dashboard/password/forgot", `{"email":"ada@example.com"}`, 422)
	require.ErrorContains(t, run([]string{"reset-password", "bob@example.com", "--data-dir", data}, io.Discard),
		"no account has this email")
}

func TestAMailServerIsReadWithoutItsPassword(t *testing.T) {
	s := testSettings(t, t.TempDir())
	s.SMTPURL = "smtp://purser:hunter22@mail.example.com"
	_, err := s.Config()
	require.ErrorContains(t, err, "PURSER_SMTP_URL: names no sender")
	require.NotContains(t, err.Error(), "hunter22")
	s.SMTPURL += "?from=purser@example.com"
	c, err := s.Config()
	require.NoError(t, err)
	require.NotNil(t, c.Mailer)
}
