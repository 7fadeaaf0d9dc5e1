// Package mail sends mails through an SMTP server. Mailer speaks SMTP, and Queue holds the mails
// that wait for it.
package mail

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"net/smtp"
	"net/textproto"
	"net/url"
	"strings"
	"time"
)

// sendTimeout bounds one connection to the SMTP server, from its start to its end.
const sendTimeout = 30 * time.Second

// Ports of the two schemes when the URL names none.
const (
	submissionPort = "587"
	tlsPort        = "465"
)

// Message is a mail of plain text.
type Message struct{ To, Subject, Text string }

// Mailer sends mails through one SMTP server. It is safe for concurrent use.
type Mailer struct {
	host, address string
	direct        bool // TLS from the first byte
	auth          smtp.Auth
	from          string
	tls           *tls.Config
}

// Parse reads smtp://[user:password@]host[:port]?from=address, or smtps:// for TLS from the first
// byte. The error never quotes the URL, which may hold a password.
func Parse(text string) (*Mailer, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "smtp" && u.Scheme != "smtps" || u.Hostname() == "" {
		return nil, errors.New("is not smtp://user:password@host:port?from=address, or the same with smtps://")
	}
	if strings.Trim(u.Path, "/") != "" || u.Fragment != "" {
		return nil, errors.New("has more than a server and the sender")
	}
	from, err := mail.ParseAddress(u.Query().Get("from"))
	if err != nil {
		return nil, errors.New("names no sender: add ?from= with an email address")
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"smtp": submissionPort, "smtps": tlsPort}[u.Scheme]
	}
	m := &Mailer{host: u.Hostname(), address: net.JoinHostPort(u.Hostname(), port), direct: u.Scheme == "smtps",
		from: from.Address, tls: &tls.Config{ServerName: u.Hostname(), MinVersion: tls.VersionTLS12}}
	if password, given := u.User.Password(); given {
		m.auth = smtp.PlainAuth("", u.User.Username(), password, m.host)
	}
	return m, nil
}

// Send hands a mail to the SMTP server. It fails with a Permanent error when another attempt would
// fail too, with the context's error, and with an error of the network. A server on another machine
// that offers no TLS is refused, because a mail may hold a token.
func (m *Mailer) Send(ctx context.Context, message Message) error {
	to, err := mail.ParseAddress("<" + message.To + ">")
	if err != nil {
		return &Permanent{errors.New("the recipient is no address that mail can be sent to")}
	}
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	conn, err := m.dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if err := m.deliver(conn, to.Address, composeText(m.from, message)); err != nil {
		if answered, ok := errors.AsType[*textproto.Error](err); ok && answered.Code >= 500 {
			return &Permanent{err}
		}
		return err
	}
	return nil
}

// Permanent is the error of a mail that no further attempt would deliver.
type Permanent struct{ Cause error }

func (p *Permanent) Error() string { return p.Cause.Error() }

// Unwrap returns the cause.
func (p *Permanent) Unwrap() error { return p.Cause }

func (m *Mailer) dial(ctx context.Context) (net.Conn, error) {
	if m.direct {
		return (&tls.Dialer{Config: m.tls}).DialContext(ctx, "tcp", m.address)
	}
	return new(net.Dialer).DialContext(ctx, "tcp", m.address)
}

// deliver runs one SMTP dialogue on an open connection.
func (m *Mailer) deliver(conn net.Conn, to string, text []byte) error {
	client, err := smtp.NewClient(conn, m.host)
	if err != nil {
		return err
	}
	if !m.direct {
		if err := m.startTLS(client); err != nil {
			return err
		}
	}
	if m.auth != nil {
		if err := client.Auth(m.auth); err != nil {
			return err
		}
	}
	if err := client.Mail(m.from); err != nil {
		return err
	}
	if err := client.Rcpt(to); err != nil {
		return err
	}
	body, err := client.Data()
	if err != nil {
		return err
	}
	if _, err := body.Write(text); err != nil {
		return err
	}
	if err := body.Close(); err != nil {
		return err
	}
	_ = client.Quit() // the server has accepted the mail
	return nil
}

// startTLS encrypts the connection. Only a server on this machine may do without.
func (m *Mailer) startTLS(client *smtp.Client) error {
	if offered, _ := client.Extension("STARTTLS"); offered {
		return client.StartTLS(m.tls)
	}
	if ip := net.ParseIP(m.host); m.host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return &Permanent{fmt.Errorf("the SMTP server %s offers no TLS", m.host)}
}

// composeText writes a mail by RFC 5322. A recipient and a subject with line breaks cannot add
// header fields: the first is parsed before, the second is encoded.
func composeText(from string, message Message) []byte {
	var out bytes.Buffer
	for _, field := range [][2]string{
		{"From", (&mail.Address{Address: from}).String()}, {"To", (&mail.Address{Address: message.To}).String()},
		{"Subject", mime.QEncoding.Encode("utf-8", message.Subject)}, {"Auto-Submitted", "auto-generated"},
		{"MIME-Version", "1.0"}, {"Content-Type", "text/plain; charset=utf-8"},
		{"Content-Transfer-Encoding", "quoted-printable"},
	} {
		fmt.Fprintf(&out, "%s: %s\r\n", field[0], field[1])
	}
	out.WriteString("\r\n")
	body := quotedprintable.NewWriter(&out)
	// Writes to a bytes.Buffer do not fail.
	_, _ = body.Write([]byte(message.Text))
	_ = body.Close()
	return out.Bytes()
}
