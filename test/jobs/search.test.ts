import assert from 'node:assert/strict'
import { test } from 'vitest'
import { createId, createIds } from '../../src/core/ids.ts'
import type { JobStore } from '../../src/jobs/index.ts'
import { parseSearch } from '../../src/jobs/index.ts'
import { listPage, scanJobs, searchPage } from '../../src/jobs/search/scan-jobs.ts'
import { engines, openGround } from './searching.ts'

for (const engine of engines) {
  test(`${engine}: a search finds jobs by their fields and by text in them, newest first, page by page`, async () => {
    await using ground = await openGround(engine)
    const { jobs } = ground.box
    const added = await jobs.addMany(
      Array.from({ length: 120 }, (_, n) => ({
        kind: n % 2 === 0 ? 'mail' : 'sms',
        queue: n % 3 === 0 ? 'eu' : 'us',
        payload: { order: { id: n }, name: n === 77 ? 'Ann Lee' : 'Bob' },
        tags: n % 10 === 0 ? ['vip'] : [],
        ...(n === 5 ? { uniqueKey: 'five', delayMs: '1h' } : {}),
      })),
    )
    const ids = added.map(({ id }) => id)
    const find = async (search: string) =>
      (await jobs.list({ search, limit: 500 })).items.map(({ id }) => ids.indexOf(id))

    assert.deepEqual(await find('"ann lee"'), [77])
    assert.deepEqual(await find('payload.order.id:42'), [42])
    assert.deepEqual(await find(`id:${ids[7]} kind:sms`), [7])
    assert.deepEqual(await find(`id:${ids[7]} kind:mail`), [])
    assert.deepEqual(await find('key:five state:scheduled'), [5])
    assert.deepEqual(await find('tag:vip kind:mail queue:eu'), [90, 60, 30, 0])
    assert.deepEqual(await find('kind:s* -queue:us -payload.order.id:3 payload.order.id:9*'), [99, 93, 9])
    assert.deepEqual(await find('created>-1h run>+30m'), [5])
    assert.deepEqual(await find('created<-1h'), [])

    const pages = []
    let cursor: string | null | undefined
    do {
      const page = await jobs.list({ search: 'kind:mail', queue: 'us', limit: 7, cursor })
      assert.equal(page.stopped, null)
      pages.push(...page.items.map(({ id }) => ids.indexOf(id)))
      cursor = page.cursor
    } while (cursor !== null)
    const expected = ids.map((_, n) => n).filter((n) => n % 2 === 0 && n % 3 !== 0)
    assert.deepEqual(pages, expected.toReversed())
  })
}

test('a search finds jobs of Signalbox’s internal queues only when it names their queue', async () => {
  await using ground = await openGround('memory')
  const { jobs } = ground.box
  const { id } = await jobs.bulk({ action: 'cancel', search: 'nothing-like-that' })
  assert.deepEqual((await jobs.list({ search: 'nothing-like-that' })).items, [])
  const own = await jobs.list({ search: 'queue:signalbox.bulk' })
  assert.deepEqual(
    own.items.map((job) => job.id),
    [id],
  )
})

test('a search that does not parse is refused with the position of the error', async () => {
  await using ground = await openGround('memory')
  await assert.rejects(ground.box.jobs.list({ search: 'kind:mail colour:red' }), (error: unknown) => {
    const { code, details } = error as { code: string; details: { column: number } }
    return code === 'invalid_argument' && details.column === 11
  })
})

test('a search that stops early gives the number of jobs and the reason, and can continue', async () => {
  await using ground = await openGround('sqlite')
  const { jobs, backend } = ground.box
  const added = await jobs.addMany(Array.from({ length: 1_000 }, (_, n) => ({ kind: 'mail', payload: n })))
  const terms = parseSearch('payload:3')
  const scan = { terms, now: Date.now(), query: {}, bounds: { maxRows: 700, maxMs: 60_000 } }
  const found: string[] = []
  const take = ({ id }: { id: string }) => found.push(id) > 0
  const first = await scanJobs(backend.jobs, scan, take)
  assert.deepEqual([first.scanned, first.stopped, found], [700, 'rows', []])
  const rest = await scanJobs(backend.jobs, { ...scan, query: { before: first.cursor! } }, take)
  assert.deepEqual([rest.scanned, rest.stopped, rest.cursor, found], [300, null, null, [added[3]!.id]])

  const late = await scanJobs(backend.jobs, { ...scan, bounds: { maxRows: 1_000, maxMs: 0 } }, take)
  assert.equal(late.stopped, 'time')
  assert.ok(late.scanned > 0 && late.scanned < 1_000 && late.cursor !== null)
})

test('a page is answered soon, even if the store is slow', async () => {
  await using ground = await openGround('memory')
  const { jobs, backend } = ground.box
  await jobs.add('mail')
  const template = (await backend.jobs.list({ limit: 1 }))[0]!
  let listed = 0
  const store: Pick<JobStore, 'find' | 'list' | 'reach'> = {
    find: async () => undefined,
    reach: async () => null,
    async list({ limit }) {
      listed += limit
      await new Promise((resolve) => setTimeout(resolve, 25))
      return Array.from({ length: limit }, () => ({ ...template, id: createId() }))
    },
  }
  const { stopped, cursor, records } = await searchPage(store, parseSearch('kind:sms'), { limit: 10 })
  assert.deepEqual([stopped, cursor !== null, records], ['time', true, []])
  // The time was over by then, so the least number of rows and the page that was under way; in more pages where one
  // seemed to take long.
  assert.ok(listed <= 2_500, `${listed} rows`)
})

test('a job of a machine whose clock is ahead does not end a search early', async () => {
  await using ground = await openGround('memory')
  const { jobs, backend } = ground.box
  await jobs.add('mail')
  const template = (await backend.jobs.list({ limit: 1 }))[0]!
  const now = Date.now()
  const addedAt = (idMinutes: number, minutes: number) => ({
    ...template,
    id: createIds({ now: () => now - idMinutes * 60_000 })(),
    createdAt: now - minutes * 60_000,
  })
  const meant = addedAt(80, 80)
  const records = [addedAt(60, 180), meant, addedAt(300, 300), addedAt(80, 80)]
  const store: Pick<JobStore, 'find' | 'list' | 'reach'> = {
    find: async () => undefined,
    reach: async () => null,
    list: async () => records,
  }
  const found: string[] = []
  const scan = { terms: parseSearch('created>-90m'), now, query: {}, bounds: { maxRows: 100, maxMs: 60_000 } }
  const { scanned, cursor } = await scanJobs(store, scan, ({ id }) => found.push(id) > 0)
  // The third is old by both clocks, and so would be all behind it.
  assert.deepEqual([found, scanned, cursor], [[meant.id], 3, null])
})

test('a search for a rare name reads in windows, and lets other work run between them', async () => {
  await using ground = await openGround('memory')
  const { jobs, backend } = ground.box
  const { id: oldest } = await jobs.add('sms')
  for (let times = 0; times < 12; times++)
    await jobs.addMany(Array.from({ length: 1_000 }, () => ({ kind: 'mail' })))
  let turns = 0
  const count = () => {
    turns++
    timer = setImmediate(count)
  }
  let timer = setImmediate(count)
  const floors: (string | undefined)[] = []
  const store: Pick<JobStore, 'find' | 'list' | 'reach'> = {
    find: (id) => backend.jobs.find(id),
    reach: (query) => backend.jobs.reach(query),
    list(query) {
      // The store looks for it, but never through more than a bounded number of jobs at once.
      assert.equal(query.kind, 'sms')
      floors.push(query.downTo)
      return backend.jobs.list(query)
    },
  }
  const scan = {
    terms: parseSearch('kind:sms'),
    now: 0,
    query: {},
    bounds: { maxRows: 5_000, maxMs: 60_000 },
  }
  const found: string[] = []
  const { cursor } = await scanJobs(store, scan, ({ id }) => found.push(id) > 0)
  clearImmediate(timer)
  assert.deepEqual([found, cursor], [[oldest], null])
  // Each begins where the one before ended, and only the last goes to the end.
  assert.ok(floors.length >= 2 && floors.slice(0, -1).every((floor) => floor !== undefined), `${floors}`)
  assert.deepEqual(
    floors,
    floors.toSorted((a = '', b = '') => (a < b ? 1 : -1)),
  )
  assert.equal(floors.at(-1), undefined)
  assert.ok(turns >= floors.length - 1, `${turns} turns`)
})

test('a list of rare jobs stops in time, says so, and continues from there', async () => {
  await using ground = await openGround('memory')
  const { jobs, backend } = ground.box
  const { id: oldest } = await jobs.add('mail', null, { queue: 'rare' })
  for (let times = 0; times < 6; times++)
    await jobs.addMany(Array.from({ length: 1_000 }, () => ({ kind: 'mail' })))
  let slowMs = 100
  const store: Pick<JobStore, 'find' | 'list' | 'reach'> = {
    find: (id) => backend.jobs.find(id),
    reach: (query) => backend.jobs.reach(query),
    async list(query) {
      await new Promise((resolve) => setTimeout(resolve, slowMs))
      return backend.jobs.list(query)
    },
  }
  const first = await listPage(store, { queue: 'rare', limit: 10 }, { minRows: 2_000, maxMs: 80 })
  assert.deepEqual([first.records, first.stopped], [[], 'time'])
  assert.ok(first.cursor !== null && first.cursor > oldest)
  slowMs = 0
  const rest = await listPage(store, { queue: 'rare', limit: 10, before: first.cursor })
  assert.deepEqual([rest.records.map(({ id }) => id), rest.cursor], [[oldest], null])
  // A store of ordinary size is listed whole, however slow it is.
  slowMs = 50
  const whole = await listPage(store, { queue: 'rare', limit: 10 })
  assert.deepEqual([whole.records.map(({ id }) => id), whole.cursor], [[oldest], null])
})

test('a bound on the time of adding limits the search at both ends', async () => {
  const hour = 3_600_000
  let now = Date.now() - 1_000 * hour
  await using ground = await openGround('memory')
  const { backend } = ground.box
  const nextId = createIds({ now: () => now })
  await ground.box.jobs.add('mail')
  const template = (await backend.jobs.list({ limit: 1 }))[0]!
  const records = Array.from({ length: 1_000 }, () => {
    now += hour
    return { ...template, id: nextId(), createdAt: now }
  }).toReversed()
  const store: Pick<JobStore, 'find' | 'list' | 'reach'> = {
    find: async () => undefined,
    reach: async () => null,
    list: async ({ before = '~', limit }) => records.filter(({ id }) => id < before).slice(0, limit),
  }
  const bounds = { maxRows: 50_000, maxMs: 60_000 }
  const count = async (search: string) => {
    let found = 0
    const { scanned } = await scanJobs(
      store,
      { terms: parseSearch(search), now, query: {}, bounds },
      () => ++found > 0,
    )
    return { found, scanned }
  }
  assert.deepEqual(await count('created>-10h'), { found: 10, scanned: 13 })
  const old = await count('created<-990h')
  assert.equal(old.found, 9)
  assert.ok(old.scanned < 100, `${old.scanned} looked at`)
})
