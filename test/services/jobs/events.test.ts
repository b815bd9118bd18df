/**
 * Streams of jobs and queues: a reader whose connection broke continues from the rows, on any server, and misses
 * nothing.
 */
import assert from 'node:assert/strict'
import { type Box, open } from 'signalbox'
import { createServer, type Server } from 'signalbox/server'
import { describe, test } from 'vitest'
import { dataOf, type EventReader, readEvents } from '../../http/server/event-reader.ts'
import { type Stage, stages } from './stage.ts'

interface Place extends AsyncDisposable {
  readonly box: Box
  /** Opens a stream; with an id, behind that event. */
  read(path: string, lastEventId?: string): Promise<EventReader>
  /** Another server replaces the first. */
  restart(): Promise<void>
}

async function aPlace(stage: Stage, namespace: string): Promise<Place> {
  const box = await open(await stage.storeUrl(), { namespace, migrate: true })
  let server: Server | undefined
  let url = ''
  const restart = async () => {
    await server?.close({ graceMs: 100 })
    server = createServer({ box, port: 0 })
    url = (await server.listen()).url
  }
  await restart()
  return {
    box,
    restart,
    read: (path, lastEventId) =>
      readEvents(`${url}${path}`, {
        'signalbox-namespace': namespace,
        ...(lastEventId === undefined ? {} : { 'last-event-id': lastEventId }),
      }),
    async [Symbol.asyncDispose]() {
      await server!.close({ graceMs: 100 })
      await box.close()
    },
  }
}

const idsOf = (events: EventReader['events']) => events.map((event) => (dataOf(event) as { id: string }).id)

/** Reads until this many ended jobs have come. */
async function readEnds(reader: EventReader, count: number): Promise<EventReader['events']> {
  const ends = () => reader.events.filter(({ type }) => ['completed', 'dead', 'cancelled'].includes(type))
  while (ends().length < count) await reader.next(20_000)
  return ends()
}

async function complete({ jobs }: Box, count: number): Promise<readonly string[]> {
  const added = await jobs.addMany(Array.from({ length: count }, () => ({ kind: 'mail', queue: 'q' })))
  const claimed = await jobs.claim({ queues: ['q'], limit: count, leaseMs: '5m' })
  for (const job of claimed) await jobs.ack(job)
  return added.map(({ id }) => id)
}

for (const stage of stages().filter(({ isRemote }) => !isRemote)) {
  describe(stage.title, { timeout: 90_000, concurrent: true }, () => {
    test('a reader of a job gets each event once, across a broken connection and a new server', {
      concurrent: false,
    }, async () => {
      await using place = await aPlace(stage, 'job-events')
      const { box } = place
      const { id } = await box.jobs.add('import', null, { queue: 'slow' })
      const path = `/v1/jobs/${id}/events`
      const first = await place.read(path)
      assert.deepEqual((dataOf(await first.next()) as { state: string }).state, 'ready')
      const [job] = await box.jobs.claim({ queues: ['slow'], leaseMs: '5m' })
      assert.deepEqual((dataOf(await first.next()) as { state: string }).state, 'running')
      await box.jobs.note(job!, { progress: 40, logs: [{ text: 'one' }, { text: 'two' }] })
      while (first.events.filter(({ type }) => type === 'log').length < 2) await first.next()
      const lastId = first.parser.lastEventId
      await first[Symbol.asyncDispose]()
      // While the reader is away.
      await box.jobs.note(job!, { progress: 90, logs: [{ text: 'three' }] })
      await box.jobs.ack(job!, { result: 1 })
      await place.restart()
      await using second = await place.read(path, lastId)
      await second.toEnd(20_000)
      const seen = second.events.map((event) => {
        const { state, percent, text } = dataOf(event) as Record<string, unknown>
        return [event.type, state ?? percent ?? text]
      })
      assert.deepEqual(seen, [
        ['progress', 90],
        ['log', 'three'],
        ['state', 'completed'],
      ])
      // Everything was read: nothing is sent again.
      await using third = await place.read(path, second.parser.lastEventId)
      assert.deepEqual(await third.toEnd(20_000), [])
    })

    test('a retry starts a new log, and the reader misses and repeats no log line', {
      concurrent: false,
    }, async () => {
      await using place = await aPlace(stage, 'retried-events')
      const { box } = place
      const { id } = await box.jobs.add('import', null, { queue: 'slow', maxAttempts: 2 })
      for (const text of ['first', 'second']) {
        const [job] = await box.jobs.claim({ queues: ['slow'], leaseMs: '5m' })
        await box.jobs.note(job!, { logs: [{ text }] })
        await box.jobs.nack(job!, { retryInMs: 0 })
      }
      const path = `/v1/jobs/${id}/events`
      const before = await place.read(path)
      await before.toEnd(20_000)
      const textsOf = (events: EventReader['events']) =>
        events.filter(({ type }) => type === 'log').map((event) => (dataOf(event) as { text: string }).text)
      assert.deepEqual(textsOf(before.events), ['first', 'second'])
      await box.jobs.retry(id)
      const [again] = await box.jobs.claim({ queues: ['slow'], leaseMs: '5m' })
      await new Promise((resolve) => setTimeout(resolve, 5))
      await box.jobs.note(again!, { logs: [{ text: 'third' }] })
      await box.jobs.ack(again!)
      await using after = await place.read(path, before.parser.lastEventId)
      await after.toEnd(20_000)
      assert.deepEqual(textsOf(after.events), ['third'])
      assert.equal((dataOf(after.events.at(-1)!) as { state: string }).state, 'completed')
    })

    test('a reader of a queue misses no end while it is disconnected, also on a new server', {
      concurrent: false,
    }, async () => {
      await using place = await aPlace(stage, 'queue-events')
      const { box } = place
      await complete(box, 3)
      const path = '/v1/queues/q/events'
      const first = await place.read(path)
      assert.equal((await first.next()).type, 'open')
      const early = await complete(box, 3)
      assert.deepEqual(idsOf(await readEnds(first, 3)).toSorted(), early.toSorted())
      const lastId = first.parser.lastEventId
      await first[Symbol.asyncDispose]()
      const missed = await complete(box, 300)
      const { id: unwanted } = await box.jobs.add('mail', null, { queue: 'q', delayMs: '1h' })
      await box.jobs.cancel(unwanted)
      await place.restart()
      await using second = await place.read(path, lastId)
      const known = new Set<string>()
      while (![...missed, unwanted].every((id) => known.has(id))) {
        const event = await second.next(20_000)
        if (event.type === 'open' || event.type === 'place') continue
        const { id, state } = dataOf(event) as { id: string; state: string }
        assert.equal(event.type, state)
        assert.ok(!known.has(id), `${id} came twice in one stream`)
        known.add(id)
      }
      const late = await complete(box, 1)
      while (!known.has(late[0]!)) known.add((dataOf(await second.next(20_000)) as { id: string }).id)
    })

    test('an impossible stream is refused', { concurrent: false }, async () => {
      await using place = await aPlace(stage, 'refused-events')
      const { id } = await place.box.jobs.add('mail')
      await using nowhere = await place.read('/v1/jobs/nowhere/events')
      assert.equal(nowhere.response.status, 404)
      for (const path of [`/v1/jobs/${id}/events`, '/v1/queues/q/events']) {
        await using wrong = await place.read(path, 'nonsense')
        await wrong.toEnd()
        assert.deepEqual(
          wrong.events.map((event) => [event.type, (dataOf(event) as { code: string }).code]),
          [['error', 'invalid_argument']],
        )
      }
    })
  })
}

for (const stage of stages()) {
  describe(`${stage.title}, with late commits`, { concurrent: true }, () => {
    stage.rowLockStory(
      'a stream misses no end that commits late',
      async (scene) => {
        await using place = await aPlace(stage, scene.namespace)
        const { box } = place
        await using reader = await place.read('/v1/queues/q/events')
        await reader.next()
        const [held, quick] = await box.jobs.addMany([
          { kind: 'mail', queue: 'q' },
          { kind: 'mail', queue: 'q' },
        ])
        const jobs = await box.jobs.claim({ queues: ['q'], limit: 2, leaseMs: '5m' })
        const caller = await scene.connect()
        await caller.begin()
        await box.jobs.ack(jobs.find(({ id }) => id === held!.id)!, { tx: caller.tx })
        await box.jobs.ack(jobs.find(({ id }) => id === quick!.id)!)
        assert.deepEqual(idsOf(await readEnds(reader, 1)), [quick!.id])
        await caller.commit()
        assert.deepEqual(idsOf(await readEnds(reader, 2)), [quick!.id, held!.id])
      },
      60_000,
    )
  })
}
