import { type FormEvent, type ReactNode, useId, useState } from 'react'
import { Button } from '../kit/button.tsx'
import { Icon } from '../kit/icon.tsx'
import { Problem } from '../kit/problem.tsx'
import { useWords } from '../words/language.tsx'
import { shellWords } from '../words/shell.ts'
import { LanguageChoice, ThemeChoice } from './choices.tsx'
import { Mark } from './mark.tsx'
import { type Session, signIn } from './session.ts'

type Why = Extract<Session, { readonly state: 'out' }>['why']

const reasons = {
  needed: undefined,
  ended: 'whyEnded',
  refused: 'whyRefused',
  left: 'whyLeft',
  namespace: 'whyNamespace',
} as const

const command = 'signalbox token create --name me --scope admin'

/** The sign-in form, with the reason why it is shown. */
export function SignIn({ why }: { readonly why: Why }): ReactNode {
  const say = useWords(shellWords)
  const field = useId()
  const [token, setToken] = useState('')
  const [working, setWorking] = useState(false)
  const reason = reasons[why]

  const submit = async (event: FormEvent) => {
    event.preventDefault()
    if (token.trim() === '' || working) return
    setWorking(true)
    await signIn(token.trim())
    setWorking(false)
  }

  return (
    <Outside>
      <form className="signin" onSubmit={(event) => void submit(event)}>
        <h1>{say('signIn')}</h1>
        {reason && (
          <p className="notice" role="alert">
            <Icon name="info" /> {say(reason)}
          </p>
        )}
        <div>
          <p>{say('signInLead')}</p>
          <code>{command}</code>
        </div>
        <p className="field">
          <label htmlFor={field}>{say('token')}</label>
          <input
            id={field}
            type="password"
            autoComplete="current-password"
            value={token}
            onChange={(event) => setToken(event.target.value)}
            // biome-ignore lint/a11y/noAutofocus: it is all there is to do here
            autoFocus
          />
          <span className="aside">{say('tokenKept')}</span>
        </p>
        <Button type="submit" look="main" disabled={working}>
          {say('signIn')}
        </Button>
      </form>
    </Outside>
  )
}

/** The server does not respond; the page retries. */
export function Unreachable({ error }: { readonly error: unknown }): ReactNode {
  const say = useWords(shellWords)
  return (
    <Outside>
      <div className="signin">
        <h1>{say('unreachable')}</h1>
        <p>{say('unreachableNext')}</p>
        <Problem error={error} />
      </div>
    </Outside>
  )
}

export function Starting(): ReactNode {
  const say = useWords(shellWords)
  return (
    <Outside>
      <p className="aside">{say('starting')}</p>
    </Outside>
  )
}

function Outside({ children }: { readonly children: ReactNode }): ReactNode {
  return (
    <div className="outside">
      <header>
        <Mark />
        <div className="actions">
          <LanguageChoice />
          <ThemeChoice />
        </div>
      </header>
      <main>{children}</main>
    </div>
  )
}
