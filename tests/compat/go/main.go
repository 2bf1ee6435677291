// franz-go against the brokers that the argument names: a line for each step, `ok` or `FAILED`; exit code 1 after a failure.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

var seeds []string
var failed bool

func check(what string, err error) {
	if err != nil {
		failed = true
		fmt.Printf("FAILED %s: %v\n", what, err)
	} else {
		fmt.Printf("ok %s\n", what)
	}
}
func client(opts ...kgo.Opt) *kgo.Client {
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(seeds...)}, opts...)...)
	if err != nil {
		panic(err)
	}
	return c
}
func consume(ctx context.Context, c *kgo.Client, n int) ([]*kgo.Record, error) {
	var out []*kgo.Record
	for len(out) < n {
		f := c.PollFetches(ctx)
		if err := f.Err0(); err != nil {
			return out, fmt.Errorf("%d of %d: %w", len(out), n, err)
		}
		for _, e := range f.Errors() {
			return out, e.Err
		}
		out = append(out, f.Records()...)
	}
	return out, nil
}
func limited() (context.Context, func()) {
	return context.WithTimeout(context.Background(), 40*time.Second)
}

func main() {
	seeds = strings.Split(os.Args[1], ",")
	rf := int16(1)
	if len(seeds) > 1 {
		rf = 3
	}
	prefix := fmt.Sprintf("franz-%d", time.Now().UnixNano()%1000000)
	admin := kadm.NewClient(client())
	ctx, cancel := limited()
	defer cancel()
	topics := []string{}
	codecs := map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()}
	for name := range codecs {
		topics = append(topics, prefix+"-"+name)
	}
	topics = append(topics, prefix+"-tx", prefix+"-group", prefix+"-out")
	rs, err := admin.CreateTopics(ctx, 3, rf, map[string]*string{"retention.ms": kadm.StringPtr("3600000")}, topics...)
	if err == nil {
		err = rs.Error()
	}
	check("create topics", err)
	for name, codec := range codecs {
		codecStep(ctx, prefix+"-"+name, name, codec)
	}
	groupStep(prefix)
	transactionStep(prefix)
	groupTransactionStep(prefix)
	adminStep(admin, prefix)
	if failed {
		os.Exit(1)
	}
	fmt.Println("all is well")
}

func codecStep(ctx context.Context, topic, name string, codec kgo.CompressionCodec) {
	c := client(kgo.ProducerBatchCompression(codec), kgo.DefaultProduceTopic(topic))
	defer c.Close()
	var rs []*kgo.Record
	for i := 0; i < 1000; i++ {
		rs = append(rs, &kgo.Record{Key: []byte(fmt.Sprint(i % 10)), Value: []byte(fmt.Sprintf("value %d %s", i, strings.Repeat("x", 50))), Headers: []kgo.RecordHeader{{Key: "h", Value: []byte("1")}}})
	}
	check("produce "+name, c.ProduceSync(ctx, rs...).FirstErr())
	r := client(kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer r.Close()
	got, err := consume(ctx, r, 1000)
	last := map[string]int{}
	for _, g := range got {
		var n int
		fmt.Sscanf(string(g.Value), "value %d", &n)
		if prev, ok := last[string(g.Key)]; ok && n <= prev {
			err = errors.New("out of order")
		}
		last[string(g.Key)] = n
	}
	check("consume "+name, err)
}

func groupStep(prefix string) {
	ctx, cancel := limited()
	defer cancel()
	topic, group := prefix+"-group", prefix+"-g"
	p := client(kgo.DefaultProduceTopic(topic))
	defer p.Close()
	for i := 0; i < 300; i++ {
		if err := p.ProduceSync(ctx, kgo.StringRecord(fmt.Sprint(i))).FirstErr(); err != nil {
			check("produce for group", err)
			return
		}
	}
	member := func(more ...kgo.Opt) *kgo.Client {
		return client(append(more, kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
	}
	a := member()
	_, err := consume(ctx, a, 300)
	check("group: one member reads all", err)
	b := member()
	deadline := time.Now().Add(30 * time.Second)
	both := false
	for time.Now().Before(deadline) && !both {
		x, done := context.WithTimeout(ctx, 200*time.Millisecond)
		a.PollFetches(x)
		done()
		x, done = context.WithTimeout(ctx, 200*time.Millisecond)
		b.PollFetches(x)
		done()
		d, err := kadm.NewClient(p).DescribeGroups(ctx, group)
		if err == nil {
			g := d[group]
			n := 0
			for _, m := range g.Members {
				if as, ok := m.Assigned.AsConsumer(); ok && len(as.Topics) == 1 && len(as.Topics[0].Partitions) > 0 {
					n++
				}
			}
			both = n == 2 && g.State == "Stable"
		}
	}
	if !both {
		check("group: cooperative rebalance", errors.New("not both have partitions"))
	} else {
		check("group: cooperative rebalance", nil)
	}
	check("group: commit", a.CommitUncommittedOffsets(ctx))
	check("group: leave", a.LeaveGroupContext(ctx))
	a.Close()
	check("group: leave of the other", b.LeaveGroupContext(ctx))
	b.Close()
	s := client(kgo.ConsumerGroup(group+"-static"), kgo.ConsumeTopics(topic), kgo.InstanceID("static-1"))
	x, done := context.WithTimeout(ctx, 10*time.Second)
	for { // a static member joins
		f := s.PollFetches(x)
		if f.Err0() != nil {
			break
		}
		if id, gen := s.GroupMetadata(); id != "" && gen > 0 {
			break
		}
	}
	done()
	id, gen := s.GroupMetadata()
	if id == "" || gen <= 0 {
		check("group: static member", errors.New("did not join"))
	} else {
		check("group: static member", nil)
	}
	s.Close()
}

func transactionStep(prefix string) {
	ctx, cancel := limited()
	defer cancel()
	topic := prefix + "-tx"
	c := client(kgo.TransactionalID(prefix+"-id"), kgo.DefaultProduceTopic(topic))
	for i := 0; i < 6; i++ {
		if err := c.BeginTransaction(); err != nil {
			check("begin", err)
			return
		}
		for n := 0; n < 10; n++ {
			c.Produce(ctx, kgo.StringRecord(fmt.Sprintf("%d-%d", i, n)), nil)
		}
		if err := c.Flush(ctx); err != nil {
			check("flush", err)
		}
		end := kgo.TryCommit
		if i%2 == 1 {
			end = kgo.TryAbort
		}
		if err := c.EndTransaction(ctx, end); err != nil {
			check("end", err)
			return
		}
	}
	r := client(kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	got, err := consume(ctx, r, 30)
	for _, g := range got {
		if (g.Value[0]-'0')%2 == 1 {
			err = errors.New("aborted record was read")
		}
	}
	x, done := context.WithTimeout(ctx, 500*time.Millisecond)
	if more := r.PollFetches(x).NumRecords(); more > 0 {
		err = fmt.Errorf("%d records too many", more)
	}
	done()
	check("transactions", err)
	r.Close()
	z := client(kgo.TransactionalID(prefix+"-id"), kgo.DefaultProduceTopic(topic))
	if err := z.BeginTransaction(); err == nil {
		check("new producer", z.ProduceSync(ctx, kgo.StringRecord("new")).FirstErr())
		check("new producer commits", z.EndTransaction(ctx, kgo.TryCommit))
	}
	c.BeginTransaction()
	err = c.ProduceSync(ctx, kgo.StringRecord("zombie")).FirstErr()
	if err == nil {
		check("fencing", errors.New("the zombie could write"))
	} else if errors.Is(err, kerr.InvalidProducerEpoch) || errors.Is(err, kerr.ProducerFenced) {
		check("fencing", nil)
	} else {
		check("fencing", err)
	}
	z.Close()
	c.Close()
}

func groupTransactionStep(prefix string) {
	ctx, cancel := limited()
	defer cancel()
	in, out := prefix+"-group", prefix+"-out"
	s, err := kgo.NewGroupTransactSession(kgo.SeedBrokers(seeds...), kgo.TransactionalID(prefix+"-eos"), kgo.DefaultProduceTopic(out),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumerGroup(prefix+"-eos-g"), kgo.ConsumeTopics(in), kgo.RequireStableFetchOffsets(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		check("session", err)
		return
	}
	n, turns := 0, 0
	for n < 300 {
		f := s.PollFetches(ctx)
		if err := f.Err0(); err != nil {
			check("session poll", err)
			return
		}
		if err := s.Begin(); err != nil {
			check("session begin", err)
			return
		}
		k := 0
		f.EachRecord(func(r *kgo.Record) { k++; s.Produce(ctx, kgo.SliceRecord(r.Value), nil) })
		turns++
		commit := kgo.TransactionEndTry(turns != 1)
		committed, err := s.End(ctx, commit)
		if err != nil {
			check("session end", err)
			return
		}
		if committed {
			n += k
		}
	}
	s.Close()
	r := client(kgo.ConsumeTopics(out), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer r.Close()
	got, err := consume(ctx, r, 300)
	seen := map[string]bool{}
	for _, g := range got {
		if seen[string(g.Value)] {
			err = errors.New("twice: " + string(g.Value))
		}
		seen[string(g.Value)] = true
	}
	check("consume-transform-produce", err)
}

func adminStep(a *kadm.Client, prefix string) {
	ctx, cancel := limited()
	defer cancel()
	m, err := a.Metadata(ctx)
	check(fmt.Sprintf("metadata: %d brokers", len(m.Brokers)), err)
	_, err = a.ListTopics(ctx, prefix+"-tx")
	check("list topics", err)
	ends, err := a.ListEndOffsets(ctx, prefix+"-tx")
	if err == nil {
		err = ends.Error()
	}
	check("list end offsets", err)
	lso, err := a.ListCommittedOffsets(ctx, prefix+"-tx")
	if err == nil {
		err = lso.Error()
	}
	check("list committed offsets", err)
	mt, err := a.ListMaxTimestampOffsets(ctx, prefix+"-tx")
	if err == nil {
		err = mt.Error()
	}
	check("list max timestamp offsets", err)
	ms, err := a.ListOffsetsAfterMilli(ctx, time.Now().Add(-time.Hour).UnixMilli(), prefix+"-tx")
	if err == nil {
		err = ms.Error()
	}
	check("list offsets by time", err)
	cs, err := a.DescribeTopicConfigs(ctx, prefix+"-tx")
	if err == nil {
		for _, c := range cs {
			if c.Err != nil {
				err = c.Err
			}
		}
	}
	check("describe topic configs", err)
	bs, err := a.DescribeBrokerConfigs(ctx, 0)
	if err == nil {
		for _, c := range bs {
			if c.Err != nil {
				err = c.Err
			}
		}
	}
	check("describe broker configs", err)
	as, err := a.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "max.message.bytes", Value: kadm.StringPtr("2000000")}}, prefix+"-tx")
	if err == nil {
		for _, c := range as {
			if c.Err != nil {
				err = c.Err
			}
		}
	}
	check("alter topic configs", err)
	ps, err := a.UpdatePartitions(ctx, 5, prefix+"-none")
	if err == nil {
		err = ps.Error()
	}
	check("update partitions", err)
	gs, err := a.ListGroups(ctx)
	check(fmt.Sprintf("list groups"), err)
	_ = gs
	lag, err := a.Lag(ctx, prefix+"-g")
	if err == nil {
		err = lag.Error()
	}
	check("lag", err)
	of := kadm.Offsets{}
	of.AddOffset(prefix+"-group", 0, 3, -1)
	of.AddOffset(prefix+"-group", 1, 0, -1) // a group without members ends with its last offset
	oc, err := a.CommitOffsets(ctx, prefix+"-g", of)
	if err == nil {
		err = oc.Error()
	}
	check("commit offsets", err)
	fo, err := a.FetchOffsets(ctx, prefix+"-g")
	if err == nil {
		err = fo.Error()
	}
	if o, ok := fo.Lookup(prefix+"-group", 0); !ok || o.At != 3 {
		err = fmt.Errorf("offset is %v", o)
	}
	check("fetch offsets", err)
	do := kadm.TopicsSet{}
	do.Add(prefix+"-group", 0)
	dor, err := a.DeleteOffsets(ctx, prefix+"-g", do)
	if err == nil {
		err = dor.Error()
	}
	check("delete offsets", err)
	dg, err := a.DeleteGroups(ctx, prefix+"-g")
	if err == nil {
		err = dg.Error()
	}
	check("delete group", err)
	ld, err := a.DescribeAllLogDirs(ctx, nil)
	_ = ld
	check("describe log dirs", err)
	tx, err := a.ListTransactions(ctx, nil, nil)
	if err == nil && len(tx) == 0 {
		err = errors.New("none")
	}
	check("list transactions", err)
	dt, err := a.DescribeTransactions(ctx, prefix+"-id")
	if err == nil {
		_, err = dt.On(prefix+"-id", nil)
	}
	check("describe transactions", err)
	set := kadm.TopicsSet{}
	set.Add(prefix+"-tx", 0, 1, 2)
	dp, err := a.DescribeProducers(ctx, set)
	if err == nil && len(dp) == 0 {
		err = errors.New("none")
	}
	check("describe producers", err)
	var ro kadm.Offsets = kadm.Offsets{}
	ro.AddOffset(prefix+"-tx", 0, 0, -1)
	dr, err := a.DeleteRecords(ctx, ro)
	if err == nil {
		err = dr.Error()
	}
	check("delete records", err)
	el, err := a.ElectLeaders(ctx, kadm.ElectPreferredReplica, nil)
	_ = el
	check("elect leaders", err)
	_, err = a.ListPartitionReassignments(ctx, nil)
	check("list reassignments", err)
	epochs := kadm.OffsetForLeaderEpochRequest{}
	epochs.Add(prefix+"-tx", 0, 0)
	_, err = a.OffsetForLeaderEpoch(ctx, epochs)
	check("offset for leader epoch", err)
	td, err := a.DeleteTopics(ctx, prefix+"-out", prefix+"-gzip")
	if err == nil {
		err = td.Error()
	}
	check("delete topics", err)
}
