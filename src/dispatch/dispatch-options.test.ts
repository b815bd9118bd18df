import assert from 'node:assert/strict'
import { test } from 'vitest'
import { type PolicyOptions, resolveDispatchOptions } from './dispatch-options.ts'
import { mailboxDefaults } from './registry/mailbox.ts'
import { registryDefaults } from './registry/registry-state.ts'

test('a partial policy is completed from the defaults, also within its weights and vetoes', () => {
  const { policy, mailbox } = resolveDispatchOptions({ policy: { ageMs: 5, weights: { cpu: 3 } } })
  const { weights } = registryDefaults
  assert.deepEqual(policy, { ...registryDefaults, ageMs: 5, weights: { ...weights, cpu: 3 } })
  assert.deepEqual(mailbox, mailboxDefaults)
  assert.deepEqual(resolveDispatchOptions().policy, registryDefaults)
})

test('an unusable policy is refused by the name of the mistake', () => {
  const wrong: readonly (readonly [unknown, RegExp])[] = [
    [{ sliceSteps: 1e9 }, /dispatch\.policy\.sliceSteps/],
    [{ maxDemands: 0 }, /dispatch\.policy\.maxDemands/],
    [{ ageMs: 0.5 }, /dispatch\.policy\.ageMs/],
    [{ retryInMs: '1s' }, /dispatch\.policy\.retryInMs/],
    [{ maxWaitng: 5 }, /no option "maxWaitng"/],
    [{ weights: { used: 2 } }, /dispatch\.policy\.weights\.used/],
    [{ weights: { cpu: Number.NaN } }, /dispatch\.policy\.weights\.cpu/],
    [{ weights: { disk: 1 } }, /no option "disk"/],
    [{ veto: null }, /dispatch\.policy\.veto/],
    [{ veto: { memory: -1 } }, /dispatch\.policy\.veto\.memory/],
    ['quick', /dispatch\.policy/],
  ]
  for (const [policy, message] of wrong)
    assert.throws(() => resolveDispatchOptions({ policy: policy as PolicyOptions }), {
      code: 'invalid_argument',
      message,
    })
  assert.throws(() => resolveDispatchOptions({ mailbox: { turnMs: 0 } }), {
    message: /dispatch\.mailbox\.turnMs/,
  })
  assert.throws(() => resolveDispatchOptions({ mailbox: { maxAdmin: -1 } }), {
    message: /dispatch\.mailbox\.maxAdmin/,
  })
})
