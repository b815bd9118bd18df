import assert from 'node:assert/strict'
import TypeBox from 'typebox'
import { test } from 'vitest'
import { Type } from './schema.ts'

/** One schema of every kind, nested, with and without options. */
function build(T: typeof Type): unknown {
  const text = T.String({ minLength: 1 })
  return T.Object(
    {
      text,
      maybe: T.Optional(T.String()),
      state: T.Union([T.Literal('ready'), T.Literal(3), T.Null()], { description: 'A state.' }),
      counts: T.Record(T.String(), T.Array(T.Integer({ minimum: 0 }), { maxItems: 3 })),
      ratio: T.Optional(T.Number()),
      isOpen: T.Boolean({ default: false }),
      anything: T.Unknown(),
      own: T.Unsafe<string>({ type: 'string', pattern: '^a' }),
      empty: T.Object({ maybe: T.Optional(text) }),
    },
    { additionalProperties: false },
  )
}

test('every builder gives the JSON Schema that TypeBox gives', () => {
  assert.equal(JSON.stringify(build(Type)), JSON.stringify(build(TypeBox)))
})

test('a schema that was made optional is still required elsewhere', () => {
  const text = Type.String()
  Type.Object({ text: Type.Optional(text) })
  assert.deepEqual(Type.Object({ text }).required, ['text'])
})
