import assert from 'node:assert/strict'
import { describe } from 'vitest'
import { createId } from '../../../src/core/ids.ts'
import { type Scene, stages } from './stage.ts'

/** A sealed job brings its id. On every engine one id is one job, however often and with whichever payload it comes. */

const sealed = (id: string) => ({ kind: 'mail', payload: { $sealed: `${id}:AAAA` } })

interface Answer {
  readonly status: number
  readonly items: readonly { readonly id: string; readonly duplicate: boolean }[]
}

/** Sends requests as a program without a box does, with its own ids. */
async function add(scene: Scene, key: string, ids: readonly string[]): Promise<Answer> {
  const response = await fetch(`${await scene.stage.url()}/v1/jobs`, {
    method: 'POST',
    body: JSON.stringify(ids.map(sealed)),
    headers: {
      'content-type': 'application/json',
      'signalbox-namespace': scene.namespace,
      'idempotency-key': key,
    },
  })
  const { items } = (await response.json()) as Pick<Answer, 'items'>
  return { status: response.status, items }
}

const added = (...ids: readonly string[]): Answer => ({
  status: 201,
  items: ids.map((id) => ({ id, duplicate: false })),
})

describe.each(stages().filter(({ isRemote }) => isRemote))('$title', (stage) => {
  stage.story('one request may contain known and new ids', async (scene) => {
    const box = await scene.open()
    const states = async () =>
      new Map((await box.jobs.list()).items.toReversed().map(({ id, state }) => [id, state]))
    const [a, b, c] = [createId(), createId(), createId()]
    assert.deepEqual(await add(scene, '1', [a]), added(a))
    assert.deepEqual(await add(scene, '2', [a, b]), added(a, b))
    assert.deepEqual(await add(scene, '1', [a]), added(a))
    assert.equal((await box.jobs.list()).items.length, 2)

    // An ended job does not start again, and a waiting job exists once.
    await box.jobs.cancel(a)
    assert.deepEqual(await add(scene, '3', [c, a]), added(c, a))
    assert.deepEqual(await add(scene, '3', [c, a]), added(c, a))
    assert.equal((await box.jobs.list()).items.length, 3)
    assert.deepEqual(
      await states(),
      new Map([
        [a, 'cancelled'],
        [b, 'ready'],
        [c, 'ready'],
      ]),
    )
    const [line] = await box.jobs.stats()
    assert.equal(line?.ready, 2)
  })

  stage.story('concurrent requests with the same id create one job', async (scene) => {
    const box = await scene.open()
    const [id, other] = [createId(), createId()]
    const answers = await Promise.all(
      Array.from({ length: 8 }, (_, index) => add(scene, String(index), index % 2 ? [id] : [other, id])),
    )
    for (const [index, answer] of answers.entries())
      assert.deepEqual(answer, index % 2 ? added(id) : added(other, id))
    assert.equal((await box.jobs.list()).items.length, 2)
    assert.equal((await box.jobs.stats())[0]?.ready, 2)
  })
})
