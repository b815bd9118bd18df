import type { ReactNode } from 'react'
import { isSignalboxError } from '../../src/http/client/index.ts'
import { lossOf } from '../live/loss.ts'
import { kitWords } from '../words/kit.ts'
import { useWords } from '../words/language.tsx'
import { Button } from './button.tsx'
import { Icon } from './icon.tsx'
import { Text } from './text/text.tsx'

const advice: Readonly<Record<string, keyof typeof kitWords & `advice${string}`>> = {
  server_unreachable: 'adviceLost',
  store_unavailable: 'adviceLost',
  store_busy: 'adviceTooMany',
  timeout: 'adviceLost',
  draining: 'adviceLost',
  forbidden: 'adviceForbidden',
  not_found: 'adviceNotFound',
  conflict: 'adviceConflict',
  invalid_argument: 'adviceInvalid',
  too_many: 'adviceTooMany',
}

export interface ProblemProps {
  readonly error: unknown
  readonly onRetry?: (() => void) | undefined
}

/** What went wrong, in the server's words, with its code and what to do. */
export function Problem({ error, onRetry }: ProblemProps): ReactNode {
  const say = useWords(kitWords)
  const code = lossOf(error) ?? (isSignalboxError(error) ? error.code : 'unknown')
  const message = error instanceof Error ? error.message : String(error)
  return (
    <div className="problem" role="alert">
      <Icon name="warning" />
      <div>
        <strong>{say('problem')}</strong>
        <p>
          <Text value={message} />
        </p>
        <p className="aside">
          {say(advice[code] ?? 'adviceUnknown')} <code>{say('problemCode', { code })}</code>
        </p>
        {onRetry && <Button onPress={onRetry}>{say('tryAgain')}</Button>}
      </div>
    </div>
  )
}
