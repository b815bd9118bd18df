import assert from 'node:assert/strict'
import { test } from 'vitest'
import { type Procedure, run } from '../procedure.ts'
import type { Bound } from '../statement.ts'
import { sideBySide } from './run-rule.ts'

const definition = { name: 'ask', declared: {}, optional: [], isForServers: true, text: () => '' }
const [asking, minting] = [definition, { ...definition, name: 'mint' }]
const ask = (by: string): Bound => ({ definition: asking, params: { by } })
const mint = (shard: number): Bound => ({ definition: minting, params: { shard } })

test('concurrent procedures share steps; late ones wait for all others and run in order', () => {
  function* work(by: string, questions: number, shard: number): Procedure<string> {
    for (let nr = 0; nr < questions; nr++) yield* run(ask(by))
    const [minted] = yield* run(mint(shard))
    return `${by} ${minted!.rows[0]}`
  }
  const all = sideBySide([work('a', 0, 3), work('b', 2, 1), work('c', 1, 2)], ({ statements: [first] }) =>
    first!.definition === minting ? (first!.params.shard as number) : undefined,
  )
  const steps: (readonly unknown[])[] = []
  let step = all.next()
  while (!step.done) {
    const sent = step.value.statements.map(({ params }) => params.by ?? params.shard)
    steps.push(sent)
    step = all.next(sent.map((row) => ({ rows: [row], rowCount: 1 })))
  }
  assert.deepEqual(steps, [['b', 'c'], ['b'], [1, 2, 3]])
  assert.deepEqual(step.value, ['a 3', 'b 1', 'c 2'])
})
