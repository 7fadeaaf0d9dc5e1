package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"

	"purser/cmd/purser/settings"
	"purser/persistence/book"
	"purser/persistence/kafka"
	"purser/persistence/pgjournal"
)

const (
	migrateWithin = 10 * time.Minute // the wait for another process's migration included
	topicsWithin  = 30 * time.Second
)

// migrateCommand brings the schema of the database up to date. A start does so too.
type migrateCommand struct {
	DatabaseURL string `name:"database-url" env:"DATABASE_URL" secret:"" help:"Postgres that has the journal."`
}

// Run is `purser migrate`: it brings the schemas of the journal and of the ledger in Postgres up to
// date, and prints the versions. It fails without DATABASE_URL, for a schema that is newer than
// this program, and with the database's error.
func (c *migrateCommand) Run(out io.Writer) error {
	if c.DatabaseURL == "" {
		return errors.New("DATABASE_URL is not set: a journal in the data directory has nothing to migrate")
	}
	if _, err := pgx.ParseConfig(c.DatabaseURL); err != nil {
		return errors.New("DATABASE_URL is neither a postgres:// URL nor keywords and values")
	}
	ctx, cancel := context.WithTimeout(context.Background(), migrateWithin)
	defer cancel()
	before, newest, err := pgjournal.Schema(ctx, c.DatabaseURL)
	switch {
	case err != nil:
		return err
	case before > newest:
		return fmt.Errorf("the schema is at version %d, this program knows %d: it is older than the one that made it", before,
			newest)
	}
	if err := errors.Join(pgjournal.Migrate(ctx, c.DatabaseURL), book.Migrate(ctx, c.DatabaseURL)); err != nil {
		return err
	}
	if before == newest {
		_, err = fmt.Fprintf(out, "the schema is at version %d already\n", newest)
	} else {
		_, err = fmt.Fprintf(out, "the schema went from version %d to %d\n", before, newest)
	}
	return err
}

// topicsCommand makes the topic when it is missing and checks it otherwise. A server does so too.
type topicsCommand struct {
	KafkaBrokers       string `name:"kafka-brokers" env:"KAFKA_BROKERS" help:"Kafka brokers, host:port with commas."`
	KafkaTLS           string `name:"kafka-tls" env:"KAFKA_TLS" default:"false" help:"As of purser serve, like all that follow."`
	KafkaTLSCA         string `name:"kafka-tls-ca" env:"KAFKA_TLS_CA"`
	KafkaTLSCert       string `name:"kafka-tls-cert" env:"KAFKA_TLS_CERT"`
	KafkaTLSKey        string `name:"kafka-tls-key" env:"KAFKA_TLS_KEY"`
	KafkaSASLMechanism string `name:"kafka-sasl-mechanism" env:"KAFKA_SASL_MECHANISM"`
	KafkaSASLUsername  string `name:"kafka-sasl-username" env:"KAFKA_SASL_USERNAME"`
	KafkaSASLPassword  string `name:"kafka-sasl-password" env:"KAFKA_SASL_PASSWORD" secret:""`
}

// Run is `purser topics`: it makes or checks the Kafka topic and prints its shape. It fails without
// KAFKA_BROKERS, for faulty settings, and with Kafka's error.
func (c *topicsCommand) Run(out io.Writer) error {
	if c.KafkaBrokers == "" {
		return errors.New("KAFKA_BROKERS is not set: there is no topic without Kafka")
	}
	var f settings.Faults
	config := f.ReadKafka(settings.Settings{KafkaBrokers: c.KafkaBrokers, KafkaTLS: c.KafkaTLS, KafkaTLSCA: c.KafkaTLSCA,
		KafkaTLSCert: c.KafkaTLSCert, KafkaTLSKey: c.KafkaTLSKey, KafkaSASLMechanism: c.KafkaSASLMechanism,
		KafkaSASLUsername: c.KafkaSASLUsername, KafkaSASLPassword: c.KafkaSASLPassword})
	if err := errors.Join(f...); err != nil {
		return err
	}
	topic, err := kafka.New(config.TopicOptions())
	if err != nil {
		return err
	}
	defer topic.Close()
	ctx, cancel := context.WithTimeout(context.Background(), topicsWithin)
	defer cancel()
	if err := topic.Prepare(ctx); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s has %d partitions, messages of up to %d bytes\n", kafka.DefaultTopic, kafka.Partitions,
		kafka.MaxMessageBytes)
	return err
}
