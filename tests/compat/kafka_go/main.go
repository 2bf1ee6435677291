// segmentio/kafka-go against the brokers that the argument names: a line for each step; the first that fails is named and ends the program with exit code 1.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	. "kavka/steps"

	"github.com/segmentio/kafka-go"
)

const partitions = 4

var (
	ctx, _  = context.WithTimeout(context.Background(), 5*time.Minute)
	brokers []string
	client  *kafka.Client
	topic   = fmt.Sprintf("kafka-go-%d", time.Now().UnixNano()%1000000)
	group   = topic + "-group"
	written = map[string]kafka.Message{} // what `topic` holds, by a header that is each record's own
)

func main() {
	brokers = strings.Split(os.Args[1], ",")
	client = &kafka.Client{Addr: kafka.TCP(brokers...), Timeout: 15 * time.Second}
	Run([]Step{
		{"create a topic, once", createTopic},
		{"write with each codec", writeWithEachCodec},
		{"read all back", readAllBack},
		{"have too large a record refused", refuseTooLarge},
		{"share a group, commit, resume", shareGroup},
		{"commit and abort offsets in transactions", transact},
		{"describe and alter a topic's settings", alterSettings},
		{"add partitions", addPartitions},
		{"delete a group", deleteGroup},
		{"delete the topic", deleteTopic},
	})
}

func create() error {
	wanted := kafka.TopicConfig{Topic: topic, NumPartitions: partitions, ReplicationFactor: len(brokers),
		ConfigEntries: []kafka.ConfigEntry{{ConfigName: "max.message.bytes", ConfigValue: "200000"}}}
	return Get(client.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{wanted}})).Errors[topic]
}

// described waits for every broker's own word, as kafka-go asks any of them.
func described(count int) {
	for _, broker := range brokers {
		one := &kafka.Client{Addr: kafka.TCP(broker), Transport: &kafka.Transport{MetadataTTL: 100 * time.Millisecond}}
		Eventually("the partitions are known", func() bool {
			found := Get(one.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{topic}})).Topics[0]
			return found.Error == nil && len(found.Partitions) == count && len(found.Partitions[0].Replicas) == len(brokers)
		})
	}
}

func createTopic() {
	Must(create())
	Refused(create(), kafka.TopicAlreadyExists)
	described(partitions)
}

func write(codec kafka.Compression, messages ...kafka.Message) error {
	w := &kafka.Writer{Addr: client.Addr, Topic: topic, RequiredAcks: kafka.RequireAll, Compression: codec,
		BatchTimeout: 10 * time.Millisecond, BatchBytes: 2_000_000, Balancer: &kafka.RoundRobin{}}
	defer w.Close()
	return w.WriteMessages(ctx, messages...)
}

func writeWithEachCodec() {
	for _, codec := range []kafka.Compression{0, kafka.Gzip, kafka.Snappy, kafka.Lz4, kafka.Zstd} {
		var messages []kafka.Message
		for i := range 120 {
			id := fmt.Sprint(codec, i)
			m := kafka.Message{Headers: []kafka.Header{{Key: "id", Value: []byte(id)}, {Key: "nothing"}}}
			if i%3 != 0 {
				m.Key = []byte(fmt.Sprint("key ", i))
			}
			if i%5 != 0 {
				m.Value = []byte(id + strings.Repeat(" again", 20))
			}
			messages = append(messages, m)
			written[id] = m
		}
		Must(write(codec, messages...))
	}
}

func readAllBack() {
	count := 0
	for partition := range partitions {
		r := kafka.NewReader(kafka.ReaderConfig{Brokers: brokers, Topic: topic, Partition: partition, MinBytes: 1, MaxBytes: 2000, MaxWait: 100 * time.Millisecond})
		for left := Get(r.ReadLag(ctx)); left > 0; left-- {
			got := Get(r.ReadMessage(ctx))
			want, known := written[string(got.Headers[0].Value)]
			if !known || !same(got.Key, want.Key) || !same(got.Value, want.Value) || !slices.EqualFunc(got.Headers, want.Headers, sameHeader) {
				Fail(fmt.Sprintf("at %d of partition %d is %q: %q, and not %v", got.Offset, partition, got.Key, got.Value, want))
			}
			count++
		}
		Must(r.Close())
	}
	Expect("records", count, len(written))
}

func same(got, want []byte) bool {
	return bytes.Equal(got, want) && (got == nil) == (want == nil)
}

func sameHeader(got, want kafka.Header) bool {
	return got.Key == want.Key && bytes.Equal(got.Value, want.Value)
}

func refuseTooLarge() {
	var each kafka.WriteErrors
	if err := write(0, kafka.Message{Value: make([]byte, 300_000)}); !errors.As(err, &each) {
		Fail(fmt.Sprintf("answered %v", err))
	}
	Refused(each[0], kafka.MessageSizeTooLarge)
}

// member commits each record that it reads in a group.
type member struct {
	reader *kafka.Reader
	count  atomic.Int32
	last   atomic.Value
	leave  func()
}

func join() *member {
	m := &member{reader: kafka.NewReader(kafka.ReaderConfig{Brokers: brokers, GroupID: group, Topic: topic, StartOffset: kafka.FirstOffset,
		MaxWait: 100 * time.Millisecond, HeartbeatInterval: 300 * time.Millisecond})}
	reading, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for reading.Err() == nil {
			message, err := m.reader.FetchMessage(reading)
			if err != nil {
				continue
			}
			Must(m.reader.CommitMessages(ctx, message))
			m.last.Store(string(message.Value))
			m.count.Add(1)
		}
	}()
	m.leave = func() {
		stop()
		<-done
		Must(m.reader.Close())
	}
	return m
}

// shares says how many partitions each member has, once the group is stable.
func shares() (owned []int) {
	found := Get(client.DescribeGroups(ctx, &kafka.DescribeGroupsRequest{GroupIDs: []string{group}})).Groups[0]
	Must(found.Error)
	for _, m := range found.Members {
		for _, assigned := range m.MemberAssignments.Topics {
			owned = append(owned, len(assigned.Partitions))
		}
	}
	if found.GroupState != "Stable" {
		return nil
	}
	return owned
}

func shareGroup() {
	first := join()
	Eventually("one member reads all", func() bool { return first.count.Load() == int32(len(written)) })
	second := join()
	Eventually("two members share the partitions", func() bool { return slices.Equal(shares(), []int{2, 2}) })
	first.leave()
	Eventually("the second has all partitions", func() bool { return slices.Equal(shares(), []int{partitions}) })
	second.leave()
	Expect("records of the second", second.count.Load(), 0)
	Must(write(0, kafka.Message{Value: []byte("news")}))
	third := join()
	Eventually("news come", func() bool { return third.count.Load() > 0 })
	third.leave()
	Expect("what came after the commit", third.last.Load(), "news")
	Expect("records after the commit", third.count.Load(), 1)
	Expect("sum of committed offsets", committed(group), int64(len(written)+1))
}

func committed(of string) (sum int64) {
	answer := Get(client.OffsetFetch(ctx, &kafka.OffsetFetchRequest{GroupID: of, Topics: map[string][]int{topic: {0, 1, 2, 3}}}))
	Must(answer.Error)
	for _, partition := range answer.Topics[topic] {
		sum += max(partition.CommittedOffset, 0)
	}
	return sum
}

// initProducer asks again: kafka-go leaves it to the program to wait for a coordinator, and for the end of the transaction before.
func initProducer(id string) (session *kafka.ProducerSession) {
	Eventually("a producer id", func() bool {
		answer, err := client.InitProducerID(ctx, &kafka.InitProducerIDRequest{TransactionalID: id, TransactionTimeoutMs: 30000})
		if err != nil || answer.Error != nil {
			return false
		}
		session = answer.Producer
		return true
	})
	return session
}

// transact goes through the requests of a transaction one by one: kafka-go has no producer that does.
func transact() {
	id, of := topic+"-id", topic+"-offsets"
	old := initProducer(id)
	now := initProducer(id)
	Expect("the epoch that follows", now.ProducerEpoch, old.ProducerEpoch+1)
	end := func(session *kafka.ProducerSession, commit bool) error {
		return Get(client.EndTxn(ctx, &kafka.EndTxnRequest{TransactionalID: id, ProducerID: session.ProducerID, ProducerEpoch: session.ProducerEpoch, Committed: commit})).Error
	}
	for _, commit := range []bool{true, false} {
		offset := int64(7)
		if !commit {
			offset = 9
		}
		Eventually("offsets are added", func() bool {
			err := Get(client.AddOffsetsToTxn(ctx, &kafka.AddOffsetsToTxnRequest{TransactionalID: id, ProducerID: now.ProducerID, ProducerEpoch: now.ProducerEpoch, GroupID: of})).Error
			if errors.Is(err, kafka.ConcurrentTransactions) { // the one before is still being completed
				return false
			}
			Must(err)
			return true
		})
		Must(Get(client.TxnOffsetCommit(ctx, &kafka.TxnOffsetCommitRequest{TransactionalID: id, GroupID: of, ProducerID: now.ProducerID, ProducerEpoch: now.ProducerEpoch, GenerationID: -1,
			Topics: map[string][]kafka.TxnOffsetCommit{topic: {{Partition: 0, Offset: offset}}}})).Topics[topic][0].Error)
		Refused(end(old, commit), kafka.ProducerFenced)
		Must(end(now, commit))
	}
	initProducer(id) // after which nothing is pending
	Expect("committed offset", committed(of), 7)
}

func expectSetting(name, want string) {
	resource := kafka.DescribeConfigRequestResource{ResourceType: kafka.ResourceTypeTopic, ResourceName: topic}
	Eventually(name+" is "+want, func() bool {
		found := Get(client.DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{Resources: []kafka.DescribeConfigRequestResource{resource}})).Resources[0]
		Must(found.Error)
		return slices.ContainsFunc(found.ConfigEntries, func(e kafka.DescribeConfigResponseConfigEntry) bool {
			return e.ConfigName == name && e.ConfigValue == want
		})
	})
}

func alterSettings() {
	expectSetting("max.message.bytes", "200000")
	change := kafka.IncrementalAlterConfigsRequestResource{ResourceType: kafka.ResourceTypeTopic, ResourceName: topic,
		Configs: []kafka.IncrementalAlterConfigsRequestConfig{{Name: "retention.ms", Value: "3600000", ConfigOperation: kafka.ConfigOperationSet}}}
	Must(Get(client.IncrementalAlterConfigs(ctx, &kafka.IncrementalAlterConfigsRequest{Resources: []kafka.IncrementalAlterConfigsRequestResource{change}})).Resources[0].Error)
	expectSetting("retention.ms", "3600000")
	expectSetting("max.message.bytes", "200000")
}

func addPartitions() {
	Must(Get(client.CreatePartitions(ctx, &kafka.CreatePartitionsRequest{Topics: []kafka.TopicPartitionsConfig{{Name: topic, Count: partitions + 2}}})).Errors[topic])
	described(partitions + 2)
}

func deleteGroup() {
	Must(Get(client.DeleteGroups(ctx, &kafka.DeleteGroupsRequest{GroupIDs: []string{group}})).Errors[group])
	Refused(Get(client.DeleteGroups(ctx, &kafka.DeleteGroupsRequest{GroupIDs: []string{group}})).Errors[group], kafka.GroupIdNotFound)
}

func deleteTopic() {
	errs := Get(client.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{topic, topic + "-never"}})).Errors
	Must(errs[topic])
	Refused(errs[topic+"-never"], kafka.UnknownTopicOrPartition)
}
