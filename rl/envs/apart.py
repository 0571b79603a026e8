"""A Gymnasium environment in a process of its own.

MuJoCo draws through OpenGL, whose software renderer brings an LLVM that clashes with TensorFlow's: drawing in
one process with TensorFlow ends it (segmentation fault, seen with Mesa's llvmpipe). So environments that are
to be drawn that way live in a child process, which never imports TensorFlow.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
from multiprocessing.connection import Connection
from typing import Any

import gymnasium

from rl.errors import UsageError


class ApartEnv(gymnasium.Env):
    """`gymnasium.make(env_id, **kwargs)` in a child process; reset, step and render as if it were here.

    Raises:
        UsageError: the child died, or cannot make the environment.
    """

    def __init__(self, env_id: str, kwargs: dict[str, Any]) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would take TensorFlow along
        self._connection, theirs = context.Pipe()
        self._child = context.Process(target=_serve, args=(theirs, env_id, kwargs), daemon=True)
        self._child.start()
        theirs.close()
        self._id = env_id
        try:
            self.observation_space, self.action_space, self.metadata, self.spec = self._receive()
        except BaseException:
            self.close()
            raise
        self.render_mode = kwargs.get("render_mode")

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict]:
        """Resets the environment in the child process; returns observation and info, as Gymnasium's `reset`
        does.

        Raises:
            UsageError: the child died. What the environment raises there is raised here.
        """
        return self._call("reset", seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict]:
        """Steps the environment in the child process; returns what Gymnasium's `step` does, and raises as
        `reset`."""
        return self._call("step", action)

    def render(self) -> Any:
        """Returns the picture that the child process draws, as Gymnasium's `render` does; raises as
        `reset`."""
        return self._call("render")

    def close(self) -> None:
        """Ends the child."""
        if self._child.is_alive():
            with contextlib.suppress(OSError):
                self._connection.send(None)
            self._child.join(5)
            self._child.kill()
        self._connection.close()

    def _call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        try:
            self._connection.send((name, args, kwargs))
        except OSError as error:
            raise self._died() from error
        return self._receive()

    def _receive(self) -> Any:
        try:
            result, error = self._connection.recv()
        except (EOFError, OSError) as error:
            raise self._died() from error
        if error is not None:
            raise error
        return result

    def _died(self) -> UsageError:
        self._child.join(5)
        return UsageError(
            f"the process that draws {self._id} ended (exit code {self._child.exitcode}): does OpenGL work "
            "here? try MUJOCO_GL=egl, osmesa or glfw"
        )


def _serve(connection: Connection, env_id: str, kwargs: dict[str, Any]) -> None:
    """Runs in the child: makes the environment, then does what it is told until it hears None."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    try:
        from rl.envs.gym_ids import gym_ids

        gym_ids()  # this package's own are among them now
        env = gymnasium.make(env_id, disable_env_checker=True, **kwargs)
    except Exception as error:
        connection.send((None, _sendable(error)))
        return
    follow(env)
    connection.send(((env.observation_space, env.action_space, env.metadata, env.spec), None))
    with contextlib.suppress(EOFError, OSError):  # the parent is gone
        while (told := connection.recv()) is not None:
            name, args, options = told
            try:
                connection.send((getattr(env, name)(*args, **options), None))
            except Exception as error:
                connection.send((None, _sendable(error)))


def follow(env: gymnasium.Env) -> None:
    """Takes the model's camera that goes along with the body, where the view given stays behind: since 1.4
    Gymnasium does not choose it by itself, and HalfCheetah runs out of the picture."""
    renderer = getattr(env.unwrapped, "mujoco_renderer", None)
    if renderer is None or renderer.camera_id != -1 or "trackbodyid" in (renderer.default_cam_config or {}):
        return
    import mujoco

    renderer.camera_id = mujoco.mj_name2id(renderer.model, mujoco.mjtObj.mjOBJ_CAMERA, "track")  # -1: none


def _sendable(error: Exception) -> Exception:
    """Gymnasium's own errors keep their kind, which says what to do; others may not survive the journey."""
    kept = (gymnasium.error.Error, ImportError, TypeError, ValueError)
    return error if isinstance(error, kept) else RuntimeError(f"{type(error).__name__}: {error}")
