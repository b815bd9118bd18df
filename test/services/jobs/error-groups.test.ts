/** Errors of failed attempts in groups: their grouping, the retry of a few jobs of a group, and then of the rest. */
import assert from 'node:assert/strict'
import { type Box, createAesSealer, defineJob } from 'signalbox'
import type { ErrorGroup, FoundJob } from 'signalbox/jobs'
import { describe } from 'vitest'
import { jobIn, stages, until } from './stage.ts'

/** Four causes, each with another id in every message. */
const causes: readonly ((n: number) => Error)[] = [
  (n) => new TypeError(`Cannot read "price" of order ${n}`),
  (n) => Object.assign(new Error(`connect ECONNREFUSED 10.0.${n % 200}.7:5432`), { code: 'ECONNREFUSED' }),
  (n) =>
    new Error(`No customer cus_${(n + 1_000_000).toString(36)}9${n} at 2026-11-18T20:15:${10 + (n % 50)}Z`),
  (n) => new RangeError(`amount ${n}.50 is more than ${n * 3}`),
]

for (const stage of stages()) {
  describe(stage.title, { concurrent: true }, () => {
    stage.story(
      '300 failures of 4 causes are 4 groups; an operator retries 5 jobs first, then the rest',
      async (scene) => {
        const box = await scene.open()
        const { jobs } = box
        let isMended = false
        await scene.work(box, {
          concurrency: 20,
          handlers: {
            charge: ({ payload: { n } }: { payload: { n: number } }) => {
              if (isMended && n % 4 === 0) return
              throw causes[n % 4]!(n)
            },
          },
        })
        await jobs.addMany(
          Array.from({ length: 300 }, (_, n) => ({ kind: 'charge', payload: { n }, maxAttempts: 1 })),
        )
        const groups = await allCounted(box, 300)
        assert.deepEqual(
          groups.map(({ kind, attemptCount, sampleJobs }) => [kind, attemptCount, sampleJobs.length]),
          [1, 2, 3, 4].map(() => ['charge', 75, 10]),
        )
        const group = groups.find(({ error }) => error.name === 'TypeError')!
        assert.match(group.error.message, /^Cannot read "price" of order \d+$/)
        assert.ok(group.firstSeenAt <= group.lastSeenAt)
        assert.deepEqual(await jobs.errorGroup(group.fingerprint), group)

        const search = `state:dead error.group:${group.fingerprint}`
        const { items } = await jobs.list({ search, limit: 500 })
        assert.equal(items.length, 75)
        assert.ok(items.every(({ payload }) => (payload as { n: number }).n % 4 === 0))
        assert.ok(group.sampleJobs.every((id) => items.some((job) => job.id === id)))

        isMended = true
        assert.deepEqual(await retry(box, search, 5), { matched: 5, done: 5 })
        await until('the canaries completed', async () => (await completed(box)) === 5)
        assert.deepEqual(await retry(box, search), { matched: 70, done: 70 })
        await until('the rest completed', async () => (await completed(box)) === 75)
        assert.equal((await jobs.list({ search })).items.length, 0)
        assert.equal((await jobs.errorGroup(group.fingerprint))?.attemptCount, 75)
      },
      60_000,
    )

    stage.story('a job shows each failed attempt with the group of its error', async (scene) => {
      const box = await scene.open()
      await scene.work(box, {
        workerId: 'w1',
        handlers: {
          mail: ({ attempt }) => {
            if (attempt < 3) throw causes[attempt]!(attempt)
          },
        },
      })
      const { id } = await box.jobs.add('mail', null, { backoff: { baseMs: 1, jitter: 0 } })
      await jobIn(box, id, 'completed')
      const { attempts, attempt } = (await box.jobs.find(id)) as FoundJob
      assert.equal(attempt, 3)
      assert.deepEqual(
        attempts.map((one) => [one.attempt, one.outcome, one.workerId, one.error.message]),
        [
          [1, 'failed', 'w1', causes[1]!(1).message],
          [2, 'failed', 'w1', causes[2]!(2).message],
        ],
      )
      for (const { fingerprint, error } of attempts) {
        const group = await box.jobs.errorGroup(fingerprint)
        assert.deepEqual([group?.attemptCount, group?.sampleJobs, group?.error], [1, [id], error])
      }
      assert.notEqual(attempts[0]!.fingerprint, attempts[1]!.fingerprint)
    })

    stage.localStory(
      'attempts of a sealed job reveal no more of the payload than the error does',
      async (scene) => {
        const sealer = createAesSealer({ keys: { k1: new Uint8Array(32).fill(7) }, current: 'k1' })
        const box = await scene.open({ jobs: { sealer, release: '2026-11-18' } })
        const pay = defineJob('pay', {
          schema: {
            '~standard': {
              version: 1,
              vendor: 'test',
              validate: (value) =>
                (value as { card: string }).card === 'none'
                  ? { value }
                  : {
                      issues: [
                        { message: `Expected "none" but received "${(value as { card: string }).card}"` },
                      ],
                    },
            },
          },
        })
        const { id } = await box.jobs.add('pay', { card: '4111-1111' })
        await scene.work(box, { handlers: [pay.handle(() => undefined)] })
        await jobIn(box, id, 'dead')
        const { attempts, error } = (await box.jobs.find(id)) as FoundJob
        assert.deepEqual([attempts.length, attempts[0]?.error], [1, error])
        assert.equal(error?.code, 'invalid_payload')
        const stored = await scene.openStore()
        const seen = [await stored.jobs.find(id), await stored.jobs.errorGroups(), attempts]
        assert.doesNotMatch(JSON.stringify(seen), /4111/)
      },
    )

    stage.story('a job shows how long it was blocked by dependencies', async (scene) => {
      const box = await scene.open()
      const first = await box.jobs.add('first')
      const { id } = await box.jobs.add('second', null, { after: first.id })
      const [lasting] = (await box.jobs.find(id))!.blocked
      assert.deepEqual([lasting?.cause, lasting?.endedAt], ['dependencies', null])
      await scene.work(box, { handlers: { first: () => undefined, second: () => undefined } })
      await jobIn(box, id, 'completed')
      const [block, ...more] = (await box.jobs.find(id))!.blocked
      assert.deepEqual([block?.startedAt, more], [lasting!.startedAt, []])
      assert.ok(block!.endedAt! >= block!.startedAt)
      assert.deepEqual((await box.jobs.find(first.id))!.blocked, [])
    })

    stage.story(
      'groups are listed in pages and by kind; a wrong cursor or search is refused',
      async (scene) => {
        const box = await scene.open()
        for (const kind of ['a', 'b', 'a'] as const) {
          const { id } = await box.jobs.add(kind)
          const [job] = await box.jobs.claim()
          assert.equal(job!.id, id)
          await box.jobs.nack(job!, {
            dead: true,
            error: `of ${kind} in ${'xyz'.repeat(1 + (await count(box)))}`,
          })
        }
        const first = await box.jobs.errorGroups({ limit: 2 })
        const rest = await box.jobs.errorGroups({ limit: 2, cursor: first.cursor })
        assert.deepEqual([first.items.length, rest.items.length, rest.cursor], [2, 1, null])
        assert.equal(new Set([...first.items, ...rest.items].map(({ fingerprint }) => fingerprint)).size, 3)
        assert.equal((await box.jobs.errorGroups({ kind: 'a' })).items.length, 2)
        assert.equal(await box.jobs.errorGroup('0123456789abcdef'), undefined)
        await assert.rejects(box.jobs.errorGroups({ cursor: 'nonsense' }), { code: 'invalid_argument' })
        await assert.rejects(box.jobs.list({ search: 'error.group:boom' }), { code: 'invalid_argument' })
      },
    )
  })
}

async function count(box: Box): Promise<number> {
  return (await box.jobs.errorGroups()).items.length
}

/** The groups, once they have counted this many attempts. */
async function allCounted(box: Box, attempts: number): Promise<readonly ErrorGroup[]> {
  let groups: readonly ErrorGroup[] = []
  await until(
    `${attempts} attempts are counted`,
    async () => {
      groups = (await box.jobs.errorGroups()).items
      return groups.reduce((sum, { attemptCount }) => sum + attemptCount, 0) === attempts
    },
    40_000,
  )
  return groups
}

async function retry(box: Box, search: string, limit?: number): Promise<{ matched: number; done: number }> {
  const { id } = await box.jobs.bulk({ action: 'retry', search, limit })
  const look = () => box.jobs.bulkOperation(id)
  await until('the operation has ended', async () => (await look())?.state !== 'running', 40_000)
  const { matched, done } = (await look())!
  return { matched, done }
}

async function completed(box: Box): Promise<number> {
  return (await box.jobs.list({ state: 'completed', limit: 500 })).items.length
}
