"use strict";

// CartPole-v1 as Gymnasium's CartPoleEnv has it (Euler's method, in double precision). Source: Barto, Sutton and
// Anderson, "Neuronlike Adaptive Elements That Can Solve Difficult Learning Control Problem", 1983.
const GRAVITY = 9.8; // m/s^2
const TOTAL_MASS = 1.1; // kg, of which the pole has 0.1
const POLE_MASS = 0.1; // kg
const HALF_LENGTH = 0.5; // m
const FORCE = 10; // N
const TAU = 0.02; // s between two states
const MAX_X = 2.4; // m
const MAX_THETA = (12 * 2 * Math.PI) / 360; // rad
const MAX_STEPS = 500;

class CartPole {
  // `state`: position (m), velocity (m/s), angle (rad), angular velocity (rad/s); drawn as Gymnasium does.
  constructor(state = Array.from({ length: 4 }, () => Math.random() * 0.1 - 0.05)) {
    this.state = [...state];
    this.steps = 0;
    this.fallen = false;
  }

  get ended() {
    return this.fallen || this.steps >= MAX_STEPS;
  }

  // Makes one step with action 0 (left) or 1 (right); `push` (N) acts on the cart beside it.
  step(action, push = 0) {
    const [x, xDot, theta, thetaDot] = this.state;
    const force = (action === 1 ? FORCE : -FORCE) + push;
    const cos = Math.cos(theta);
    const sin = Math.sin(theta);
    const temp = (force + POLE_MASS * HALF_LENGTH * thetaDot * thetaDot * sin) / TOTAL_MASS;
    const thetaAcc =
      (GRAVITY * sin - cos * temp) / (HALF_LENGTH * (4 / 3 - (POLE_MASS * cos * cos) / TOTAL_MASS));
    const xAcc = temp - (POLE_MASS * HALF_LENGTH * thetaAcc * cos) / TOTAL_MASS;
    this.state = [x + TAU * xDot, xDot + TAU * xAcc, theta + TAU * thetaDot, thetaDot + TAU * thetaAcc];
    this.steps += 1;
    this.fallen = Math.abs(this.state[0]) > MAX_X || Math.abs(this.state[2]) > MAX_THETA;
  }
}
