// kafkajs against the brokers that the argument names: a line for each step; the first that fails is named and ends the program with exit code 1.
import assert from 'node:assert/strict'
import process from 'node:process'
import { setTimeout as sleep } from 'node:timers/promises'
import kafkajs from 'kafkajs'
import snappy from 'kafkajs-snappy'

const { CompressionCodecs, CompressionTypes, ConfigResourceTypes, Kafka, logLevel } = kafkajs
CompressionCodecs[CompressionTypes.Snappy] = snappy

const brokers = process.argv[2].split(',')
const kafka = new Kafka({ clientId: 'kavka', brokers, logLevel: logLevel.NOTHING, retry: { retries: 20, maxRetryTime: 1000 } })
const admin = kafka.admin()
const topic = `kafkajs-${Date.now() % 1000000}`
const decisions = `${topic}-transactions`
const group = `${topic}-group`
const resource = { type: ConfigResourceTypes.TOPIC, name: topic }
const partitions = 4
const written = new Map() // what `topic` holds, by a header that is each record's own

const steps = {
  'create topics, once': createTopics,
  'produce idempotently with each codec': produceWithEachCodec,
  'read all back': readAllBack,
  'have too large a record refused': refuseTooLarge,
  'share a group, commit, resume': shareGroup,
  'commit and abort transactions': transact,
  'fence a producer by its successor': fence,
  "describe and alter a topic's settings": alterSettings,
  'delete records': deleteRecords,
  'add partitions': addPartitions,
  'delete a group': deleteGroup,
  'delete topics': deleteTopics
}

async function main () {
  await admin.connect()
  for (const [index, [what, run]] of Object.entries(steps).entries()) {
    try {
      await run()
    } catch (error) {
      console.log(`FAILED ${index + 1} ${what}: ${error.stack}`)
      process.exit(1) // consumers may still run
    }
    console.log(`ok ${index + 1} ${what}`)
  }
  await admin.disconnect()
  console.log('all is well')
}

async function eventually (what, is) {
  for (const deadline = Date.now() + 40000; !(await is());) {
    assert(Date.now() < deadline, `never: ${what}`)
    await sleep(50)
  }
}

async function createTopics () {
  const topics = [topic, decisions].map(name => ({ topic: name, numPartitions: partitions, replicationFactor: brokers.length }))
  topics[0].configEntries = [{ name: 'max.message.bytes', value: '200000' }]
  assert.equal(await admin.createTopics({ topics, waitForLeaders: true }), true)
  assert.equal(await admin.createTopics({ topics }), false)
  const described = (await admin.fetchTopicMetadata({ topics: [topic] })).topics[0].partitions
  assert.deepEqual(described.map(p => p.replicas.length), Array(partitions).fill(brokers.length))
}

async function send (name, messages, compression, options) {
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1, ...options })
  await producer.connect()
  try {
    return await producer.send({ topic: name, acks: -1, compression, messages })
  } finally {
    await producer.disconnect()
  }
}

async function produceWithEachCodec () {
  for (const codec of ['None', 'GZIP', 'Snappy']) {
    const messages = [...Array(120).keys()].map(i => ({
      key: i % 3 ? `key ${i}` : null,
      value: i % 5 ? `${codec} ${i}${' again'.repeat(20)}` : null,
      headers: { id: `${codec} ${i}`, twice: ['a', 'b'], empty: '' }
    }))
    await send(topic, messages, CompressionTypes[codec])
    for (const message of messages) written.set(message.headers.id, message)
  }
}

// Joins a group; `member.read` is what it was given, `member.owned` how many partitions it has.
async function join (groupId, name, options) {
  const consumer = kafka.consumer({ groupId, heartbeatInterval: 300, maxWaitTimeInMs: 100, ...options })
  const member = { read: [], owned: 0, leave: () => consumer.disconnect() }
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => { member.owned = (payload.memberAssignment[name] ?? []).length })
  await consumer.connect()
  await consumer.subscribe({ topics: [name], fromBeginning: true })
  await consumer.run({ eachMessage: async ({ message }) => { member.read.push(message) } })
  return member
}

async function readAllBack () {
  const member = await join(`${topic}-reader`, topic, { maxBytesPerPartition: 2000 })
  await eventually('all is read', () => member.read.length >= written.size)
  await member.leave()
  const text = value => value && value.toString()
  const plain = ({ id, twice, empty }) => ({ id: text(id), twice: twice.map(text), empty: text(empty) })
  const read = new Map(member.read.map(({ key, value, headers }) => [text(headers.id), { key: text(key), value: text(value), headers: plain(headers) }]))
  assert.deepEqual([...read].sort(), [...written].sort())
  assert.equal(member.read.length, written.size)
}

async function refuseTooLarge () {
  const tooLarge = [{ value: 'x'.repeat(300000) }]
  await assert.rejects(send(topic, tooLarge, CompressionTypes.None, { idempotent: false, retry: { retries: 0 } }), /larger than/)
}

async function shareGroup () {
  const first = await join(group, topic)
  await eventually('one member reads all', () => first.read.length === written.size)
  const second = await join(group, topic)
  await eventually('two members share the partitions', () => first.owned === 2 && second.owned === 2)
  const [described] = (await admin.describeGroups([group])).groups
  assert.deepEqual([described.state, described.members.length], ['Stable', 2])
  await first.leave()
  await eventually('the second has all partitions', () => second.owned === partitions)
  await second.leave()
  await send(topic, [{ value: 'news' }])
  const third = await join(group, topic)
  await eventually('news come', () => third.read.length > 0)
  await third.leave()
  assert.deepEqual([...second.read, ...third.read].map(m => m.value.toString()), ['news'])
  assert.equal(await committed(group), written.size + 1)
}

async function committed (groupId) {
  const [offsets] = await admin.fetchOffsets({ groupId, topics: [topic] })
  return offsets.partitions.reduce((sum, { offset }) => sum + Math.max(0, Number(offset)), 0)
}

async function transactional () {
  const producer = kafka.producer({ transactionalId: `${topic}-id`, idempotent: true, maxInFlightRequests: 1 })
  await producer.connect()
  return producer
}

async function begin (producer, kind) {
  const transaction = await producer.transaction()
  const messages = [...Array(10).keys()].map(i => ({ key: `${i}`, value: kind }))
  await transaction.send({ topic: decisions, messages })
  return transaction
}

async function transact () {
  const producer = await transactional()
  for (let round = 0; round < 6; round++) {
    const aborts = round % 2 === 1
    const transaction = await begin(producer, aborts ? 'aborted' : 'committed')
    const topics = [{ topic, partitions: [{ partition: 0, offset: `${100 + round}` }] }]
    await transaction.sendOffsets({ consumerGroupId: `${topic}-offsets`, topics })
    await (aborts ? transaction.abort() : transaction.commit())
  }
  await producer.disconnect()
  await expectDecisions(30, 30)
  assert.equal(await committed(`${topic}-offsets`), 104)
}

// Gives each partition a last record, so that all before it has been read, and counts the others.
async function expectDecisions (committed, aborted) {
  const last = `last of ${committed}`
  await send(decisions, [...Array(partitions).keys()].map(partition => ({ partition, value: last })))
  for (const [readUncommitted, visible] of [[false, 0], [true, aborted]]) {
    const member = await join(`${topic}-${committed}-${readUncommitted}`, decisions, { readUncommitted })
    const count = kind => member.read.filter(m => m.value.toString() === kind).length
    await eventually('every partition is read', () => count(last) === partitions)
    await member.leave()
    assert.deepEqual([count('committed'), count('aborted')], [committed, visible])
  }
}

async function fence () {
  const old = await transactional()
  const fenced = await begin(old, 'aborted')
  const successor = await transactional()
  const transaction = await begin(successor, 'committed')
  await assert.rejects(fenced.commit(), /epoch|fenced/i)
  await transaction.commit()
  await Promise.all([old.disconnect(), successor.disconnect()])
  await expectDecisions(40, 40)
}

async function expectSetting (name, value) {
  await eventually(`${name} is ${value}`, async () => {
    const { resources: [{ configEntries }] } = await admin.describeConfigs({ resources: [resource] })
    return configEntries.find(entry => entry.configName === name).configValue === value
  })
}

async function alterSettings () {
  await expectSetting('max.message.bytes', '200000')
  await admin.alterConfigs({ resources: [{ ...resource, configEntries: [{ name: 'retention.ms', value: '3600000' }] }] })
  await expectSetting('retention.ms', '3600000')
  await expectSetting('max.message.bytes', '1048588') // AlterConfigs takes back what it does not name
}

async function deleteRecords () {
  await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '3' }] })
  const offsets = await admin.fetchTopicOffsets(topic)
  assert.equal(offsets.find(({ partition }) => partition === 0).low, '3')
}

async function addPartitions () {
  await admin.createPartitions({ topicPartitions: [{ topic, count: partitions + 2 }] })
  await eventually('the partitions are there', async () => {
    const { topics: [described] } = await admin.fetchTopicMetadata({ topics: [topic] })
    return described.partitions.length === partitions + 2
  })
}

async function groupIsListed () {
  return (await admin.listGroups()).groups.some(({ groupId }) => groupId === group)
}

async function deleteGroup () {
  assert.equal(await groupIsListed(), true)
  assert.deepEqual(await admin.deleteGroups([group]), [{ groupId: group, errorCode: 0 }])
  assert.equal(await groupIsListed(), false)
}

async function deleteTopics () {
  await admin.deleteTopics({ topics: [topic, decisions] })
  await eventually('the topic is gone', async () => !(await admin.listTopics()).includes(topic))
}

await main()
