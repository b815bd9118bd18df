import { test } from 'vitest'
import { candidates } from '../conformance/candidates.ts'
import { assertOnlyText } from '../http/server/security/injections.ts'

// The others need no service: test/http/server/security/injection.test.ts.
const served = candidates().filter(({ name }) => name === 'postgres' || name === 'mariadb')

for (const { name, open } of served) {
  test(`SQL in any text that a route accepts is stored as text (${name})`, { timeout: 60_000 }, async () => {
    await using backend = await open({ namespace: 'default' })
    await assertOnlyText({ backend })
  })
}
