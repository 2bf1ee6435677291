// IBM Sarama against the brokers that the first argument names, as a client of the version in the second ("newest" is the last it knows):
// a line for each step; the first that fails is named and ends the program with exit code 1.
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

	"github.com/IBM/sarama"
)

const partitions = 3

type place struct {
	partition int32
	offset    int64
}

var (
	brokers   []string
	version   = sarama.MaxVersion
	admin     sarama.ClusterAdmin
	topic     = fmt.Sprintf("sarama-%d", time.Now().UnixNano()%1000000)
	decisions = topic + "-transactions"
	group     = topic + "-group"
	written   = map[place]*sarama.ProducerMessage{} // what `topic` holds, by what the producer was answered
)

func main() {
	brokers = strings.Split(os.Args[1], ",")
	if os.Args[2] != "newest" {
		version = Get(sarama.ParseKafkaVersion(os.Args[2]))
	}
	admin = Get(sarama.NewClusterAdmin(brokers, config()))
	var steps []Step
	for _, step := range []struct {
		what  string
		since sarama.KafkaVersion
		do    func()
	}{
		{"create a topic, once", sarama.V0_11_0_0, createTopic},
		{"produce idempotently with each codec", sarama.V0_11_0_0, produceWithEachCodec},
		{"read all back", sarama.V0_11_0_0, readAllBack},
		{"have too large a record refused", sarama.V0_11_0_0, refuseTooLarge},
		{"share a group, commit, resume", sarama.V0_11_0_0, shareGroup},
		{"commit and abort transactions", sarama.V0_11_0_0, transact},
		{"fence a producer by its successor", sarama.V0_11_0_0, fence},
		{"describe and alter a topic's settings", sarama.V0_11_0_0, alterSettings},
		{"alter one setting alone", sarama.V2_3_0_0, alterOneSetting},
		{"delete records", sarama.V0_11_0_0, deleteRecords},
		{"add partitions", sarama.V1_0_0_0, addPartitions},
		{"delete a group", sarama.V1_1_0_0, deleteGroup},
		{"delete topics", sarama.V0_11_0_0, deleteTopics},
	} {
		if version.IsAtLeast(step.since) {
			steps = append(steps, Step{step.what, step.do})
		}
	}
	Run(steps)
}

func config() *sarama.Config {
	c := sarama.NewConfig()
	c.Version = version
	c.Producer.RequiredAcks = sarama.WaitForAll
	c.Producer.Return.Successes = true
	c.Producer.Idempotent = true
	c.Net.MaxOpenRequests = 1 // what Sarama's idempotent producer allows
	c.Consumer.Offsets.Initial = sarama.OffsetOldest
	c.Consumer.Offsets.AutoCommit.Enable = false
	c.Consumer.Group.Heartbeat.Interval = 300 * time.Millisecond
	return c
}

func pointer(text string) *string { return &text }

func create(name string) error {
	settings := map[string]*string{"max.message.bytes": pointer("200000")}
	return admin.CreateTopic(name, &sarama.TopicDetail{NumPartitions: partitions, ReplicationFactor: int16(len(brokers)), ConfigEntries: settings}, false)
}

func createTopic() {
	Must(create(topic))
	Refused(create(topic), sarama.ErrTopicAlreadyExists)
	Eventually("the topic is listed", func() bool {
		detail := Get(admin.ListTopics())[topic]
		return detail.NumPartitions == partitions && detail.ReplicationFactor == int16(len(brokers))
	})
}

func send(c *sarama.Config, messages ...*sarama.ProducerMessage) error {
	producer := Get(sarama.NewSyncProducer(brokers, c))
	defer producer.Close()
	return producer.SendMessages(messages)
}

func produceWithEachCodec() {
	codecs := []sarama.CompressionCodec{sarama.CompressionNone, sarama.CompressionGZIP, sarama.CompressionSnappy, sarama.CompressionLZ4}
	if version.IsAtLeast(sarama.V2_1_0_0) {
		codecs = append(codecs, sarama.CompressionZSTD)
	}
	for _, codec := range codecs {
		c := config()
		c.Producer.Compression = codec
		var messages []*sarama.ProducerMessage
		for i := range 120 {
			m := &sarama.ProducerMessage{Topic: topic, Headers: []sarama.RecordHeader{
				{Key: []byte("codec"), Value: []byte(codec.String())}, {Key: []byte("codec"), Value: []byte{}}, {Key: []byte("nothing")}}}
			if i%3 != 0 {
				m.Key = sarama.StringEncoder(fmt.Sprint("key ", i))
			}
			if i%5 != 0 {
				m.Value = sarama.StringEncoder(fmt.Sprint(codec, i, strings.Repeat(" again", 20)))
			}
			messages = append(messages, m)
		}
		Must(send(c, messages...))
		for _, m := range messages {
			written[place{m.Partition, m.Offset}] = m
		}
	}
	Expect("places of records", len(written), 120*len(codecs))
}

func readAllBack() {
	read := readAll(topic, sarama.ReadUncommitted)
	for _, got := range read {
		want := written[place{got.Partition, got.Offset}]
		if want == nil || !same(got.Key, want.Key) || !same(got.Value, want.Value) || !slices.EqualFunc(got.Headers, want.Headers, sameHeader) {
			Fail(fmt.Sprintf("at %d of partition %d is %q: %q, and not %v", got.Offset, got.Partition, got.Key, got.Value, want))
		}
	}
	Expect("records", len(read), len(written))
}

func same(got []byte, want sarama.Encoder) bool {
	if want == nil || got == nil {
		return want == nil && got == nil
	}
	return bytes.Equal(got, Get(want.Encode()))
}

func sameHeader(got *sarama.RecordHeader, want sarama.RecordHeader) bool {
	return bytes.Equal(got.Key, want.Key) && bytes.Equal(got.Value, want.Value)
}

// readAll reads each partition from its start to its last record of now, which must not be a transaction's marker.
func readAll(name string, isolation sarama.IsolationLevel) (read []*sarama.ConsumerMessage) {
	c := config()
	c.Consumer.IsolationLevel = isolation
	c.Consumer.Fetch.Default = 2000 // far less than there is: batches come one by one
	client := Get(sarama.NewClient(brokers, c))
	defer client.Close()
	consumer := Get(sarama.NewConsumerFromClient(client))
	defer consumer.Close()
	for partition := range int32(partitions) {
		end := Get(client.GetOffset(name, partition, sarama.OffsetNewest))
		source := Get(consumer.ConsumePartition(name, partition, sarama.OffsetOldest))
		for last := int64(-1); last < end-1; {
			select {
			case m := <-source.Messages():
				Expect("the offset grows", m.Offset > last, true)
				last = m.Offset
				read = append(read, m)
			case <-time.After(Patience):
				Fail(fmt.Sprintf("partition %d ends at %d; nothing came after %d", partition, end, last))
			}
		}
		source.Close()
	}
	return read
}

func refuseTooLarge() {
	c := config()
	c.Producer.MaxMessageBytes = 2_000_000
	var several sarama.ProducerErrors
	if err := send(c, &sarama.ProducerMessage{Topic: topic, Value: sarama.ByteEncoder(make([]byte, 300_000))}); !errors.As(err, &several) {
		Fail(fmt.Sprintf("answered %v", err))
	}
	Refused(several[0].Err, sarama.ErrMessageSizeTooLarge)
}

// member counts what it is given in a group, and commits that at the end of each generation.
type member struct {
	group  sarama.ConsumerGroup
	cancel context.CancelFunc
	done   chan struct{}
	owned  atomic.Int32
	count  atomic.Int32
	last   atomic.Value
}

func join() *member {
	ctx, cancel := context.WithCancel(context.Background())
	m := &member{group: Get(sarama.NewConsumerGroup(brokers, group, config())), cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(m.done)
		for ctx.Err() == nil {
			Must(m.group.Consume(ctx, []string{topic}, m))
		}
	}()
	return m
}

func (m *member) leave() {
	m.cancel()
	<-m.done
	Must(m.group.Close())
}

func (m *member) Setup(session sarama.ConsumerGroupSession) error {
	m.owned.Store(int32(len(session.Claims()[topic])))
	return nil
}

func (m *member) Cleanup(session sarama.ConsumerGroupSession) error {
	m.owned.Store(0)
	session.Commit()
	return nil
}

func (m *member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		m.last.Store(string(message.Value))
		session.MarkMessage(message, "")
		m.count.Add(1)
	}
	return nil
}

func shareGroup() {
	first := join()
	Eventually("one member reads all", func() bool { return first.count.Load() == int32(len(written)) })
	second := join()
	Eventually("two members share the partitions", func() bool {
		return first.owned.Load() > 0 && second.owned.Load() > 0 && first.owned.Load()+second.owned.Load() == partitions
	})
	described := Get(admin.DescribeConsumerGroups([]string{group}))[0]
	Expect("state", described.State, "Stable")
	Expect("members", len(described.Members), 2)
	first.leave()
	Eventually("the second has all partitions", func() bool { return second.owned.Load() == partitions })
	second.leave()
	Expect("records of the second", second.count.Load(), 0)
	news := &sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder("news")}
	Must(send(config(), news))
	third := join()
	Eventually("news come", func() bool { return third.count.Load() > 0 })
	third.leave()
	Expect("what came after the commit", third.last.Load(), "news")
	Expect("records after the commit", third.count.Load(), 1)
	Expect("sum of committed offsets", committed(group), int64(len(written)+1))
}

func committed(of string) (sum int64) {
	answer := Get(admin.ListConsumerGroupOffsets(of, map[string][]int32{topic: {0, 1, 2}}))
	for _, block := range answer.Blocks[topic] {
		sum += max(block.Offset, 0)
	}
	return sum
}

func transactional() sarama.SyncProducer {
	c := config()
	c.Producer.Transaction.ID = topic + "-id"
	return Get(sarama.NewSyncProducer(brokers, c))
}

func begin(producer sarama.SyncProducer, kind string) {
	Must(producer.BeginTxn())
	for i := range 10 {
		m := &sarama.ProducerMessage{Topic: decisions, Key: sarama.StringEncoder(fmt.Sprint(i)), Value: sarama.StringEncoder(kind)}
		_, _, err := producer.SendMessage(m)
		Must(err)
	}
}

func transact() {
	Must(create(decisions))
	producer := transactional()
	defer producer.Close()
	for round := range int64(6) {
		end, kind := producer.CommitTxn, "committed"
		if round%2 == 1 {
			end, kind = producer.AbortTxn, "aborted"
		}
		begin(producer, kind)
		offsets := map[string][]*sarama.PartitionOffsetMetadata{topic: {{Partition: 0, Offset: 100 + round}}}
		Must(producer.AddOffsetsToTxn(offsets, topic+"-offsets"))
		Must(end())
	}
	expectDecisions(30, 30)
	Expect("committed offset", committed(topic+"-offsets"), 104)
}

// expectDecisions gives each partition a last record that is no marker, and counts the others.
func expectDecisions(committed, aborted int) {
	c := config()
	c.Producer.Partitioner = sarama.NewManualPartitioner
	for partition := range int32(partitions) {
		Must(send(c, &sarama.ProducerMessage{Topic: decisions, Partition: partition, Value: sarama.StringEncoder("last")}))
	}
	for isolation, visible := range map[sarama.IsolationLevel]int{sarama.ReadCommitted: 0, sarama.ReadUncommitted: aborted} {
		kinds := map[string]int{}
		for _, m := range readAll(decisions, isolation) {
			kinds[string(m.Value)]++
		}
		Expect("committed records", kinds["committed"], committed)
		Expect("aborted records", kinds["aborted"], visible)
	}
}

func fence() {
	old := transactional()
	defer old.Close()
	begin(old, "aborted")
	successor := transactional()
	defer successor.Close()
	Expect("the old producer can commit", old.CommitTxn() == nil, false)
	begin(successor, "committed")
	Must(successor.CommitTxn())
	expectDecisions(40, 40)
}

func expectSetting(name, want string) {
	Eventually(name+" is "+want, func() bool {
		entries := Get(admin.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: topic}))
		return slices.ContainsFunc(entries, func(e sarama.ConfigEntry) bool { return e.Name == name && e.Value == want })
	})
}

func alterSettings() {
	expectSetting("max.message.bytes", "200000")
	Must(admin.AlterConfig(sarama.TopicResource, topic, map[string]*string{"retention.ms": pointer("3600000")}, false))
	expectSetting("retention.ms", "3600000")
	expectSetting("max.message.bytes", "1048588") // AlterConfigs takes back what it does not name
}

func alterOneSetting() {
	change := sarama.IncrementalAlterConfigsEntry{Operation: sarama.IncrementalAlterConfigsOperationSet, Value: pointer("300000")}
	Must(admin.IncrementalAlterConfig(sarama.TopicResource, topic, map[string]sarama.IncrementalAlterConfigsEntry{"max.message.bytes": change}, false))
	expectSetting("max.message.bytes", "300000")
	expectSetting("retention.ms", "3600000")
}

func deleteRecords() {
	Must(admin.DeleteRecords(topic, map[int32]int64{0: 5}))
	client := Get(sarama.NewClient(brokers, config()))
	defer client.Close()
	Expect("log start offset", Get(client.GetOffset(topic, 0, sarama.OffsetOldest)), 5)
	consumer := Get(sarama.NewConsumerFromClient(client))
	defer consumer.Close()
	_, err := consumer.ConsumePartition(topic, 0, 4)
	Refused(err, sarama.ErrOffsetOutOfRange)
}

func addPartitions() {
	Must(admin.CreatePartitions(topic, partitions+2, nil, false))
	Eventually("the partitions are there", func() bool {
		return len(Get(admin.DescribeTopics([]string{topic}))[0].Partitions) == partitions+2
	})
}

func deleteGroup() {
	Expect("type of the group", Get(admin.ListConsumerGroups())[group], "consumer")
	Must(admin.DeleteConsumerGroup(group))
	_, there := Get(admin.ListConsumerGroups())[group]
	Expect("the group is there", there, false)
}

func deleteTopics() {
	Must(admin.DeleteTopic(topic))
	Must(admin.DeleteTopic(decisions))
	Refused(admin.DeleteTopic(topic+"-never"), sarama.ErrUnknownTopicOrPartition)
	Eventually("the topic is gone", func() bool {
		_, there := Get(admin.ListTopics())[topic]
		return !there
	})
}
