import { type ReactNode, useState } from 'react'
import { isSignalboxError } from '../../../src/http/client/index.ts'
import { Confirm } from '../../kit/confirm.tsx'
import { Input, Select } from '../../kit/field.tsx'
import { spanOf } from '../../kit/text/span.ts'
import { changed } from '../../live/queries.ts'
import { signIn, stayDuring, useSignedIn } from '../../shell/session.ts'
import { useWords } from '../../words/language.tsx'
import { settingsWords } from '../../words/settings.ts'
import { showSecret } from './secret.tsx'
import './settings.css'

type Scope = 'read' | 'work' | 'admin'

/** Makes a token, and hands its secret to where it is shown. */
export function NewToken({ onClose }: { readonly onClose: () => void }): ReactNode {
  const say = useWords(settingsWords)
  const { client, hasToken } = useSignedIn()
  const [name, setName] = useState('')
  const [scope, setScope] = useState<Scope>(hasToken ? 'work' : 'admin')
  const [expires, setExpires] = useState('')
  const create = async () => {
    if (name.trim() === '') throw new Error(say('nameNeeded'))
    const span = expires.trim()
    await stayDuring(async () => {
      const { secret } = await client.tokens.create({
        ...{ name: name.trim(), scope },
        ...(span === '' ? {} : { expiresInMs: spanOf(span) }),
      })
      // Do this before any other request: the server may now refuse requests without a token.
      showSecret(secret)
      if (!hasToken && (await isRefused(client.overview.me()))) await signIn(secret)
    })
    await changed('tokens', 'audit')
  }
  return (
    <Confirm title={say('create')} act={say('create')} onConfirm={create} onClose={onClose}>
      <p>{say('createMeans')}</p>
      {!hasToken && <p>{say('firstMeans')}</p>}
      <div className="settings-fields">
        <Input live label={say('name')} value={name} onChange={setName} />
        <Select
          label={say('scope')}
          value={scope}
          options={[
            ['read', say('scopeRead')],
            ['work', say('scopeWork')],
            ['admin', say('scopeAdmin')],
          ]}
          onChange={setScope}
        />
        {!hasToken && scope !== 'admin' && <p className="settings-weak">{say('firstWeak')}</p>}
        <Input
          live
          label={say('expiresIn')}
          placeholder={say('expiresHint')}
          value={expires}
          onChange={setExpires}
        />
      </div>
    </Confirm>
  )
}

async function isRefused(asked: Promise<unknown>): Promise<boolean> {
  try {
    await asked
    return false
  } catch (error) {
    return isSignalboxError(error, 'unauthorized')
  }
}
