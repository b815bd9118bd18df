import assert from 'node:assert/strict'
import { test } from 'vitest'
import { createContention } from './contention.ts'

function later<Value>(ms: number, value: Value): Promise<Value> {
  return new Promise((resolve) => setTimeout(resolve, ms, value))
}

class Store {
  #answer = 42
  readonly size = 3
  find(ms: number): Promise<number> {
    return later(ms, this.#answer)
  }
  fail(): Promise<never> {
    return Promise.reject(new Error('away'))
  }
  sync(): number {
    return this.#answer
  }
}

test('the time of a store command is a wait, charged to the store', async () => {
  const contention = createContention()
  const store = contention.store(new Store(), 'things')
  const kind = contention.kind('http.findThing')

  const answer = await contention.during(kind, async () => {
    const found = await Promise.all([store.find(20), store.find(20)])
    return found[0]
  })

  assert.equal(answer, 42)
  const { kinds, matrix } = contention.snapshot()
  const command = kinds.find((one) => one.kind === 'http.findThing')!
  assert.ok(command.wait.maxMs >= 19, `${command.wait.maxMs}`)
  assert.equal(kinds.find((one) => one.kind === 'store.things.find')!.hold.count, 2)
  // Side by side, so that it waited once.
  const cell = matrix.find(({ waiter, holder }) => waiter === 'http.findThing' && holder === 'store')!
  assert.equal(cell.count, 1)
  assert.ok(cell.ms >= 19 && cell.ms <= command.wait.maxMs + 0.01, `${cell.ms}`)
})

test('a metered store returns, throws and looks like the store itself', async () => {
  const contention = createContention()
  const real = new Store()
  const store = contention.store(real, 'things')

  assert.equal(store.size, 3)
  assert.equal(store.sync(), 42)
  assert.ok(store instanceof Store)
  await assert.rejects(store.fail(), /away/)
  assert.equal((store as { missing?: unknown }).missing, undefined)
})

test('time in which a command has nothing to do is not counted', async () => {
  const contention = createContention()
  const kind = contention.kind('http.claimJobs')

  const begunAt = performance.now()
  await contention.during(kind, async () => {
    contention.command.rest()
    await later(200, undefined)
    contention.command.resume()
  })
  const tookMs = performance.now() - begunAt

  const [times] = contention.snapshot().kinds
  // Nearly nothing, unless the machine stood still before the rest or after it.
  assert.ok(times!.hold.maxMs <= tookMs - 190, `${times!.hold.maxMs} of ${tookMs} ms`)
})

test('a command is counted under its final kind, also when it fails', async () => {
  const contention = createContention()
  const [unknown, known] = [contention.kind('http.none'), contention.kind('http.addJobs')]

  await assert.rejects(
    contention.during(unknown, async () => {
      contention.command.is(known)
      throw new Error('broken')
    }),
    /broken/,
  )

  assert.deepEqual(
    contention.snapshot().kinds.map(({ kind, hold }) => [kind, hold.count]),
    [['http.addJobs', 1]],
  )
})
